"""A run from the first commit to maintenance, on emulators, each part in a process of its own and in its own role.

Every request of a part passes a recorder, signed with a key that has the role's name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog

from icemirror.settings import load_settings
from icemirror.settings.for_job import pack
from icemirror.settings.packed import VARIABLE, pack_config
from tests.infra.installation import LAKE
from tests.infra.recorded_calls import Recorder
from tests.unit.house.tracked import ROOT

ENTRY = str(ROOT / "spark_job" / "submit" / "icemirror_job.py")
HANDLE = """
import json, sys
from trigger.handler import handler
for event in json.loads(sys.argv[1]):
    handler(event, object())
"""
_SECONDS, _MOST_SWEEPS = 180, 8
_COLUMNS = {"id": pa.int64(), "sequence_number": pa.int64(), "cdc_operation": pa.string()}
_SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _COLUMNS.items()])
_EXPIRE_ALL = {"history.expire.max-snapshot-age-ms": "1", "history.expire.min-snapshots-to-keep": "1"}


@dataclass
class WholeRun:
    """The parts of one. `path` is the configuration, with the recorder's address for S3."""

    path: Path
    application: str
    environ: Mapping[str, str]
    ran: list[str] = field(default_factory=list)

    def make_changelog(self, name: str) -> None:
        """An empty one, anew."""
        catalog = self._catalog()
        if catalog.table_exists(name):
            catalog.drop_table(name)
        made = catalog.create_table(name, _SCHEMA, location=f"s3://{LAKE}/raw/{name}")
        with made.update_schema() as update:
            update.set_identifier_fields("id")

    def commit(self, name: str, sequence: int, operation: str) -> None:
        """Three changes, by whoever writes changelogs."""
        rows = pa.table([[1, 2, 3], [sequence] * 3, [operation] * 3], schema=_SCHEMA)
        self._catalog().load_table(name).append(rows)

    def tell_trigger(self, *events: Mapping[str, Any]) -> None:
        """The function, called with these."""
        self._do("trigger", "-c", HANDLE, json.dumps(events))

    @property
    def log(self) -> Path:
        """What all parts said on the way."""
        return self.path.with_name("run.log")

    def sweep_until(self, true: Callable[[], bool], *, run_jobs: bool = True) -> None:
        """As the clock calls the function, and EMR runs what it launches."""
        for _ in range(_MOST_SWEEPS):
            self.tell_trigger({"icemirror": "sweep"})
            for run in self.launched() if run_jobs else ():
                self.run_job(run)
            if true():
                return
        raise AssertionError(f"it did not come true: {self.log.read_text()[-8000:]}")

    def is_mirrored(self, mirror: str) -> bool:
        """Is there a mirror of that name?"""
        return self._catalog().table_exists(mirror)

    def launched(self) -> list[str]:
        """The ids of jobs that have not run yet."""
        runs = boto3.client("emr-serverless").list_job_runs(applicationId=self.application)["jobRuns"]
        return [run["id"] for run in runs if run["id"] not in self.ran]

    def run_job(self, run: str) -> None:
        """As EMR would."""
        emr, which = boto3.client("emr-serverless"), {"applicationId": self.application, "jobRunId": run}
        arguments = emr.get_job_run(**which)["jobRun"]["jobDriver"]["sparkSubmit"]["entryPointArguments"]
        self._do("job", ENTRY, *arguments, SERVERLESS_EMR_JOB_ID=run)
        emr.cancel_job_run(**which)  # the emulator has no other way to see that it ended
        self.ran.append(run)

    def merge(self, mirror: str) -> None:
        """As a job does it."""
        self._do("job", "-m", "icemirror", "merge", "-t", mirror)

    def start_by_the_clock(self, asked: Mapping[str, Any]) -> None:
        """What the scheduler asks EMR for, at night."""
        door = self.environ["AWS_ENDPOINT_URL_EMR_SERVERLESS"]
        signed = {"aws_access_key_id": "scheduler", "aws_secret_access_key": "x"}
        emr = boto3.client("emr-serverless", endpoint_url=door, **signed)
        self.ran.append(emr.start_job_run(**asked, clientToken="a-token")["jobRunId"])

    def maintain(self, mirror: str, arguments: Iterable[str]) -> list[Any]:
        """The nightly job, where every snapshot of a mirror but the last is due; what it tells."""
        with self._catalog().load_table(mirror).transaction() as change:
            change.set_properties(_EXPIRE_ALL)
        asked = takewhile(lambda one: one != "--config", arguments)
        said = self._do("maintenance", ENTRY, *asked, "--config", *pack(self.path.read_text()))
        return [json.loads(line) for line in said.splitlines()]

    def _catalog(self) -> Catalog:
        """Of somebody whom nobody records."""
        told = load_settings(self.path, {}).catalog_properties(None)
        return load_catalog("lake", **{**told, "s3.endpoint": os.environ["AWS_ENDPOINT_URL"]})

    def _do(self, role: str, *command: str, **more: str) -> str:
        given = {**os.environ, **self.environ, "AWS_ACCESS_KEY_ID": role, "PYTHONPATH": str(ROOT), **more}
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.path.parent,
            env=given,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        with self.log.open("a") as log:
            log.write(f"--- {role}\n{done.stderr}")
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout


@contextmanager
def open_run(recorder: Recorder, configuration: Any, folder: Path) -> Iterator[WholeRun]:
    """One whose requests pass the recorder."""
    content = json.loads(json.dumps(configuration))
    doors = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EMR_SERVERLESS")
    with ExitStack() as stack:
        environ = {name: stack.enter_context(recorder.before(os.environ[name])) for name in doors}
        content["iceberg"]["catalog"]["s3.endpoint"] = environ["AWS_ENDPOINT_URL"]  # names buckets in paths
        content["job"]["linger"] = "0s"
        path = folder / "icemirror.yaml"
        path.write_text(json.dumps(content))
        environ |= {"ICEMIRROR_CONFIG": str(path), VARIABLE: pack_config(path.read_text())}
        yield WholeRun(path, content["trigger"]["launcher"]["application_id"], environ)
