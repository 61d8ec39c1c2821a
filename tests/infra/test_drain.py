"""drain.sh, with a fake AWS CLI."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.infra.terraform import OURS

AWS = """#!/bin/sh
echo "$1 $2" >> "$CALLS"
case "$1 $2 $*" in
    *application.name*) echo shop ;;
    *get-schedule*shop-maintenance*) [ -n "$SCHEDULE" ] && echo "$SCHEDULE" || exit 254 ;;
    *application.state*) grep -q stop-application "$CALLS" && echo STOPPED || echo STARTED ;;
    *list-job-runs*) grep -q cancel-job-run "$CALLS" || [ -z "$RUNS" ] || echo "$RUNS" ;;
esac
"""


def drain(folder: Path, *options: str, schedule: str = "", runs: str = "") -> tuple[str, str, list[str]]:
    """Run drain.sh; return its stdout, its stderr and the AWS calls."""
    command, calls = folder / "aws", folder / "calls"
    command.write_text(AWS)
    command.chmod(0o755)
    given = {"CALLS": str(calls), "SCHEDULE": schedule, "RUNS": runs, "DRAIN_POLL_SECONDS": "0"}
    done = subprocess.run(
        [OURS / "drain.sh", "00f1", *options],
        env={"PATH": f"{folder}:{os.environ['PATH']}", **given},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout, done.stderr, calls.read_text().splitlines()


def test_drain_warns_of_scheduled_maintenance(tmp_path: Path) -> None:
    stdout, stderr, calls = drain(tmp_path, schedule="cron(17 3 * * ? *)")
    assert "maintenance is not paused and starts at cron(17 3 * * ? *)" in stderr
    assert stdout == "stopped: terraform can change or destroy 00f1\n"
    assert calls.count("emr-serverless stop-application") == 1


@pytest.mark.parametrize(
    ("options", "runs"), [((), ""), (("--cancel",), "00r1 00r2")], ids=["no runs", "cancelled runs"]
)
def test_drain_stops_the_application_without_a_warning_if_there_is_no_schedule(
    options: tuple[str, ...], runs: str, tmp_path: Path
) -> None:
    _, stderr, calls = drain(tmp_path, *options, runs=runs)
    assert "maintenance" not in stderr
    assert calls.count("emr-serverless cancel-job-run") == len(runs.split())
    assert calls[-1] == "emr-serverless get-application"
