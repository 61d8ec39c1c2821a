"""The trigger as a package for AWS Lambda, with a launcher that only records launches."""

from __future__ import annotations

import sqlite3
import zipfile
from contextlib import closing
from importlib.metadata import distribution
from io import BytesIO
from pathlib import Path

from tests.processes.house.light_imports import closure

ROOT = Path(__file__).parents[2]
CHANGELOG_FOLDER = "raw/orders_changelog/metadata"
CONFIG = """
iceberg: {{catalog: {{type: sql, uri: "sqlite:///{folder}/catalog.db"}}}}
tables: [{{changelog: raw.orders_changelog, mirror: shop.orders, primary_keys: [id]}}]
trigger:
  state: {{type: dynamodb, table: icemirror, region: us-east-1, endpoint: "{endpoint}"}}
  launcher:
    {{type: emr-serverless, application_id: a, execution_role_arn: "arn:aws:iam::1:role/r", entry_point: "s3://x/y"}}
  quiet_period: 0s
telemetry: {{prometheus: null}}
"""
ENTRY = '''
"""The entry point: the shipped handler, with a launcher that records its calls in a bucket."""
import boto3
from icemirror.protocol.events import RunState
from trigger import handler as shipped
from trigger import wiring

class RecordingLauncher:
    def launch(self, request):
        boto3.client("s3", endpoint_url={endpoint!r}).put_object(Bucket="launches", Key=request.token, Body=b"")
        return f"run-of-{{request.token}}"
    def find(self, token): return None
    def poll(self, run_id): return RunState.RUNNING
    def log_location(self, run_id): return ""
    def cancel(self, run_id): pass

wiring.open_launcher = lambda *_: RecordingLauncher()

def handler(event, context):
    return shipped.handler(event, context)
'''


def pack(folder: Path, endpoint: str) -> bytes:
    """Return a zip of our packages and their dependencies, with a configuration and a catalog from `folder`."""
    with closing(sqlite3.connect(folder / "catalog.db")) as catalog:
        catalog.execute(
            "CREATE TABLE iceberg_tables "
            "(catalog_name TEXT, table_namespace TEXT, table_name TEXT, metadata_location TEXT)"
        )
        head = f"s3://lake/{CHANGELOG_FOLDER}/00001-a.metadata.json"
        catalog.execute(
            "INSERT INTO iceberg_tables VALUES ('icemirror', 'raw', 'orders_changelog', ?)", (head,)
        )
        catalog.commit()
    (folder / "icemirror.yaml").write_text(CONFIG.format(folder=folder, endpoint=endpoint))
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as package:
        package.writestr("entry.py", ENTRY.format(endpoint=endpoint))
        write_trigger(package)
    return packed.getvalue()


def write_trigger(package: zipfile.ZipFile) -> None:
    """Add our packages and their dependencies as installed in this environment."""
    for ours in ("icemirror", "trigger"):
        for file in (ROOT / ours).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                package.write(file, file.relative_to(ROOT))
    for name in closure("icemirror", "boto3") - {"icemirror"}:
        for listed in distribution(name).files or []:
            path = Path(str(distribution(name).locate_file(listed)))
            if path.is_file() and not str(listed).startswith("..") and listed.suffix != ".pyc":
                package.write(path, str(listed))
