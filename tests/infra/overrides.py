"""Overrides of the minimal example for its installation on emulators."""

from __future__ import annotations

REGION = "us-east-1"
PROVIDER = f"""
provider "aws" {{
  region            = "{REGION}"
  s3_use_path_style = true
}}
"""
# One table rejects bad rows.
QUARANTINE = """
module "icemirror" {
  tables = [
    { changelog = "raw.orders_changelog", mirror = "shop.orders" },
    { changelog = "raw.items_changelog", mirror = "shop.items", on_bad_row = "quarantine", on_truncate = "rebuild" },
  ]
}
"""
# EMR refuses this change while the application is started.
UPGRADE = """
module "icemirror" {
  spark = { idle_minutes = 7 }
}
"""
# Two KMS keys, discovery, and a rejects table in a separate database. There are no S3 events: the test that records
# calls invokes the function.
KEY, LAKE_KEY = (f"arn:aws:kms:{REGION}:000000000000:key/{name}" for name in ("installation", "lake"))
ALL_FEATURES = f"""
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
