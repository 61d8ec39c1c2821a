"""What is changed of the example `minimal` where it is applied to emulators."""

from __future__ import annotations

REGION = "us-east-1"
PROVIDER = f"""
provider "aws" {{
  region            = "{REGION}"
  s3_use_path_style = true
}}
"""
# One of the example's tables puts bad rows aside.
QUARANTINE = """
module "icemirror" {
  tables = [
    { changelog = "raw.orders_changelog", mirror = "shop.orders" },
    { changelog = "raw.items_changelog", mirror = "shop.items", on_bad_row = "quarantine", on_truncate = "rebuild" },
  ]
}
"""
# EMR takes no change of this while the application is started.
UPGRADE = """
module "icemirror" {
  spark = { idle_minutes = 7 }
}
"""
