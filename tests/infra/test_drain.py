"""drain.sh on a command line of AWS that answers from a list."""

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
    *get-schedule*shop-maintenance*) [ -n "$CLOCK" ] && echo "$CLOCK" || exit 254 ;;
    *application.state*) grep -q stop-application "$CALLS" && echo STOPPED || echo STARTED ;;
    *list-job-runs*) grep -q cancel-job-run "$CALLS" || [ -z "$RUNS" ] || echo "$RUNS" ;;
esac
"""


def drained(folder: Path, *options: str, clock: str = "", runs: str = "") -> tuple[str, str, list[str]]:
    """What it says, what it tells people, and the calls that it makes."""
    command, calls = folder / "aws", folder / "calls"
    command.write_text(AWS)
    command.chmod(0o755)
    given = {"CALLS": str(calls), "CLOCK": clock, "RUNS": runs, "DRAIN_POLL_SECONDS": "0"}
    done = subprocess.run(
        [OURS / "drain.sh", "00f1", *options],
        env={"PATH": f"{folder}:{os.environ['PATH']}", **given},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout, done.stderr, calls.read_text().splitlines()


def test_it_says_when_maintenance_would_start_the_application_again(tmp_path: Path) -> None:
    said, told, calls = drained(tmp_path, clock="cron(17 3 * * ? *)")
    assert "maintenance is not paused, and starts at cron(17 3 * * ? *)" in told
    assert said == "stopped: terraform may change or destroy 00f1\n"
    assert calls.count("emr-serverless stop-application") == 1


@pytest.mark.parametrize(("options", "runs"), [((), ""), (("--cancel",), "00r1 00r2")])
def test_without_a_schedule_it_stops_and_says_nothing_of_one(
    options: tuple[str, ...], runs: str, tmp_path: Path
) -> None:
    _, told, calls = drained(tmp_path, *options, runs=runs)
    assert "maintenance" not in told
    assert calls.count("emr-serverless cancel-job-run") == len(runs.split())
    assert calls[-1] == "emr-serverless get-application"
