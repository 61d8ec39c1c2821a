"""The entry file for spark-submit as a process, with the arguments of the platforms."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import spark_job.worker
from icemirror.config_file.job_config import config_for_job
from icemirror.config_file.load import load_settings
from icemirror.config_file.packing import pack_arguments
from icemirror.errors import Exit
from icemirror.protocol.events import Dispatch, Noticed, SchedulingOptions
from icemirror.protocol.policy import Policy
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import Rows, SlotState
from icemirror.protocol.run_request import RunRequest
from icemirror.stores.apply import apply
from icemirror.stores.sqlite import SqliteStore
from tests.unit.trigger.launchers.launcher_suite import REQUEST

ENTRY = Path(spark_job.worker.__file__).parent / "icemirror_job.py"
ROOT = Path(__file__).parents[3]
TABLE = "shop.orders"
FILE = """
iceberg: {{catalog: {{type: sql, uri: "sqlite:///{folder}/catalog.db", credential: "${{LAKE_TOKEN}}"}}}}
tables: [{{namespace: shop, changelog_table: orders_changelog, mirror_table: orders, primary_keys: [id]}}]
job: {{linger: 0s}}
trigger: {{state: {{type: sqlite, path: {folder}/state.db}}, quiet_period: 0s}}
"""


class Job:
    """A slot that waits for its worker, and a dirty table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / "icemirror.yaml"
        path.write_text(FILE.format(folder=folder))
        environ = {"LAKE_TOKEN": "s3cret"}
        self.config = pack_arguments(config_for_job(load_settings(path, environ), environ).text)
        path.unlink()  # the job cannot read the trigger's file
        self.store = SqliteStore(folder / "state.db")
        policy = Policy(quiet_seconds=0.0)
        apply(self.store, Noticed(REQUEST.gen / 1000 - 60, TABLE, SchedulingOptions()), policy)
        apply(self.store, Dispatch(REQUEST.gen / 1000, "default"), policy)

    def run(self, request: RunRequest, config: tuple[str, ...], **environ: str) -> int:
        command = [sys.executable, str(ENTRY), "--request", request.model_dump_json()]
        command += ["--run-id", "icemirror-run", "--config", *config]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "LAKE_TOKEN": "s3cret", **environ}
        return subprocess.run(command, env=environment, cwd=self.folder, timeout=120, check=False).returncode

    def rows(self) -> Rows:
        return self.store.load(ALL_ROWS)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path)
    yield job
    job.store.close()


@pytest.mark.parametrize(
    ("environ", "run_id"),
    [({}, "icemirror-run"), ({"SERVERLESS_EMR_JOB_ID": "00f1"}, "00f1")],
    ids=["by name", "by EMR's id"],
)
def test_job_takes_its_slot_serves_the_table_and_frees_the_slot(
    job: Job, environ: dict[str, str], run_id: str
) -> None:
    (slot,) = job.rows().slots.values()
    assert (slot.state, slot.gen) == (SlotState.LAUNCHING, REQUEST.gen)
    assert job.run(REQUEST, job.config, **environ) == Exit.DONE
    (slot,) = job.rows().slots.values()
    table = job.rows().tables[TABLE]
    assert (slot.state, slot.failures) == (SlotState.FREE, 0)
    assert table.last_run is not None
    assert (table.last_run.run_id, table.last_run.outcome) == (run_id, "failed"), "there is no changelog"


def test_job_after_its_time_limit_picks_no_table(job: Job) -> None:
    assert job.run(REQUEST, (*job.config, "--stop-after", "0")) == Exit.DONE
    (slot,) = job.rows().slots.values()
    assert (slot.state, job.rows().tables[TABLE].last_run) == (SlotState.FREE, None)


def test_job_of_another_generation_ends_at_once_without_an_error(job: Job) -> None:
    before = job.rows()
    assert job.run(REQUEST.model_copy(update={"gen": REQUEST.gen - 1}), job.config) == Exit.DONE
    assert job.rows() == before


def test_job_without_its_secret_or_with_a_damaged_configuration_reports_it(
    job: Job, capfd: pytest.CaptureFixture[str]
) -> None:
    assert job.run(REQUEST, job.config, LAKE_TOKEN="") == Exit.USAGE
    assert "LAKE_TOKEN is not set" in capfd.readouterr().err
    assert job.run(REQUEST, ("garbage",)) == Exit.BLOCKED
    assert "cannot read the configuration" in capfd.readouterr().err


def test_maintenance_job_reads_the_same_configuration_as_a_worker(
    job: Job, capfd: pytest.CaptureFixture[str]
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LAKE_TOKEN": "s3cret"}

    def maintain(*config: str) -> int:
        command = [sys.executable, str(ENTRY), "maintain", "expire", "--json", "--config", *config]
        return subprocess.run(command, env=environment, cwd=job.folder, timeout=120, check=False).returncode

    halves = job.config[0][:100], job.config[0][100:]
    assert maintain(*halves) == Exit.RETRY_LATER, "there is no catalog"
    output = capfd.readouterr()
    assert '"table":"shop.orders"' in (output.out + output.err).replace(" ", "")
    assert maintain("garbage") == Exit.BLOCKED
    assert "cannot read the configuration" in capfd.readouterr().err
