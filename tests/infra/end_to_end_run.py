"""Runs icemirror from the first commit to maintenance on emulators, each component in its own process and role.

A component signs its requests with an access key named after its role, and they pass a recorder.
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

from icemirror.config_file.load import load_settings
from icemirror.config_file.packing import PACKED_CONFIG_VARIABLE, pack_arguments, pack_config
from tests.infra.installation import LAKE
from tests.infra.recorded_calls import Recorder
from tests.unit.house.tracked import ROOT

ENTRY = str(ROOT / "spark_job" / "worker" / "icemirror_job.py")
HANDLE = """
import json, sys
from trigger.handler import handler
for event in json.loads(sys.argv[1]):
    handler(event, object())
"""
_SECONDS, _MAX_SWEEPS = 180, 8
_COLUMNS = {"id": pa.int64(), "sequence_number": pa.int64(), "cdc_operation": pa.string()}
_SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _COLUMNS.items()])
_EXPIRE_ALL = {"history.expire.max-snapshot-age-ms": "1", "history.expire.min-snapshots-to-keep": "1"}


@dataclass
class EndToEndRun:
    """The components of one run. `path` is the configuration, with the recorder's address for S3."""

    path: Path
    application: str
    environ: Mapping[str, str]
    ran: list[str] = field(default_factory=list)

    def make_changelog(self, name: str) -> None:
        """Create an empty changelog, and replace an existing one."""
        catalog = self._catalog()
        if catalog.table_exists(name):
            catalog.drop_table(name)
        table = catalog.create_table(name, _SCHEMA, location=f"s3://{LAKE}/raw/{name}")
        with table.update_schema() as update:
            update.set_identifier_fields("id")

    def commit(self, name: str, sequence: int, operation: str) -> None:
        """Commit three events to a changelog."""
        rows = pa.table([[1, 2, 3], [sequence] * 3, [operation] * 3], schema=_SCHEMA)
        self._catalog().load_table(name).append(rows)

    def invoke_trigger(self, *events: Mapping[str, Any]) -> None:
        """Call the function with each event."""
        self._run("trigger", "-c", HANDLE, json.dumps(events))

    @property
    def log(self) -> Path:
        """Path of the log of all components."""
        return self.path.with_name("run.log")

    def sweep_until(self, is_done: Callable[[], bool], *, run_jobs: bool = True) -> None:
        """Sweep, and run the launched jobs, until the condition holds."""
        for _ in range(_MAX_SWEEPS):
            self.invoke_trigger({"icemirror": "sweep"})
            for run in self.launched() if run_jobs else ():
                self.run_job(run)
            if is_done():
                return
        raise AssertionError(f"the condition did not become true: {self.log.read_text()[-8000:]}")

    def is_mirrored(self, mirror: str) -> bool:
        """Return whether the mirror exists."""
        return self._catalog().table_exists(mirror)

    def launched(self) -> list[str]:
        """Return the IDs of launched job runs that have not run yet."""
        runs = boto3.client("emr-serverless").list_job_runs(applicationId=self.application)["jobRuns"]
        return [run["id"] for run in runs if run["id"] not in self.ran]

    def run_job(self, run: str) -> None:
        """Run a job as EMR would."""
        emr, selector = boto3.client("emr-serverless"), {"applicationId": self.application, "jobRunId": run}
        arguments = emr.get_job_run(**selector)["jobRun"]["jobDriver"]["sparkSubmit"]["entryPointArguments"]
        self._run("job", ENTRY, *arguments, SERVERLESS_EMR_JOB_ID=run)
        emr.cancel_job_run(**selector)  # the emulator cannot see that the job ended
        self.ran.append(run)

    def merge(self, mirror: str) -> None:
        """Merge in the job's role."""
        self._run("job", "-m", "icemirror", "merge", "-t", mirror)

    def start_scheduled_job(self, request: Mapping[str, Any]) -> None:
        """Start the nightly job in the scheduler's role."""
        endpoint = self.environ["AWS_ENDPOINT_URL_EMR_SERVERLESS"]
        signed = {"aws_access_key_id": "scheduler", "aws_secret_access_key": "x"}
        emr = boto3.client("emr-serverless", endpoint_url=endpoint, **signed)
        self.ran.append(emr.start_job_run(**request, clientToken="a-token")["jobRunId"])

    def maintain(self, mirror: str, arguments: Iterable[str]) -> list[Any]:
        """Run the nightly job with all old snapshots of a mirror due for expiry; return its output."""
        with self._catalog().load_table(mirror).transaction() as change:
            change.set_properties(_EXPIRE_ALL)
        command = takewhile(lambda argument: argument != "--config", arguments)
        printed = self._run(
            "maintenance", ENTRY, *command, "--config", *pack_arguments(self.path.read_text())
        )
        return [json.loads(line) for line in printed.splitlines()]

    def _catalog(self) -> Catalog:
        """Open the catalog without the recorder."""
        properties = load_settings(self.path, {}).catalog_properties(None)
        return load_catalog("lake", **{**properties, "s3.endpoint": os.environ["AWS_ENDPOINT_URL"]})

    def _run(self, role: str, *command: str, **variables: str) -> str:
        process_environ = {
            **os.environ,
            **self.environ,
            "AWS_ACCESS_KEY_ID": role,
            "PYTHONPATH": str(ROOT),
            **variables,
        }
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.path.parent,
            env=process_environ,
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
def open_run(recorder: Recorder, configuration: Any, folder: Path) -> Iterator[EndToEndRun]:
    """Open a run whose requests pass the recorder."""
    content = json.loads(json.dumps(configuration))
    endpoints = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EMR_SERVERLESS")
    with ExitStack() as stack:
        environ = {name: stack.enter_context(recorder.proxy(os.environ[name])) for name in endpoints}
        # An explicit endpoint gives path-style requests.
        content["iceberg"]["catalog"]["s3.endpoint"] = environ["AWS_ENDPOINT_URL"]
        content["job"]["linger"] = "0s"
        path = folder / "icemirror.yaml"
        path.write_text(json.dumps(content))
        environ |= {"ICEMIRROR_CONFIG": str(path), PACKED_CONFIG_VARIABLE: pack_config(path.read_text())}
        yield EndToEndRun(path, content["trigger"]["launcher"]["application_id"], environ)
