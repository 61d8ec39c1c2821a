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
# Everything is encrypted with a key of one's own, the lake with another; some changelogs are discovered, and bad rows
# are put aside in a database of their own. The function hears of nothing by itself: whoever records calls it.
KEY, LAKE_KEY = (f"arn:aws:kms:{REGION}:000000000000:key/{name}" for name in ("of-ours", "of-the-lake"))
WHOLE = f"""
module "icemirror" {{
  tables = [
    {{ changelog = "raw.orders_changelog", mirror = "shop.orders" }},
    {{
      changelog     = "raw.items_changelog"
      mirror        = "shop.items"
      on_bad_row    = "quarantine"
      rejects_table = "bad.items"
    }},
  ]
  discover      = [{{ namespace = "found", match = "*_changelog", mirror_namespace = "mirrored" }}]
  events        = {{ s3 = false }}
  kms_key_arn   = "{KEY}"
  lake_key_arns = ["{LAKE_KEY}"]
  spark         = {{ encrypt_disks = true }}
  tags          = {{ service = "icemirror" }}
}}
"""
