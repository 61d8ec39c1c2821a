"""Crash points."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from icemirror.processes.crash_points import reach

SCRIPT = """
from icemirror.processes.crash_points import reach
for number in range(3):
    reach("other")
    print(number, flush=True)
    reach("here")
"""


def _run(crash_at: str | None) -> tuple[int, str]:
    environ = {key: value for key, value in os.environ.items() if key != "ICEMIRROR_CRASH_AT"}
    if crash_at:
        environ["ICEMIRROR_CRASH_AT"] = crash_at
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environ, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.replace("\n", "")


@pytest.mark.parametrize(
    ("crash_at", "expected"),
    [
        (None, (0, "012")),
        ("elsewhere", (0, "012")),
        ("here", (-signal.SIGKILL, "0")),
        ("here:2", (-signal.SIGKILL, "01")),
        ("other:3", (-signal.SIGKILL, "01")),
        ("here:9", (0, "012")),
    ],
)
def test_process_dies_only_at_the_given_crash_point(crash_at: str | None, expected: tuple[int, str]) -> None:
    assert _run(crash_at) == expected


def test_without_the_variable_nothing_happens() -> None:
    reach("here")
