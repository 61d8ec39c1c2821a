"""Crash points kill the process only where the environment variable names them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from icemirror.processes.crash_points import crash_point

SCRIPT = """
from icemirror.processes.crash_points import crash_point
for number in range(3):
    crash_point("other")
    print(number, flush=True)
    crash_point("here")
"""


def _run(crash_at: str | None) -> tuple[int, str]:
    environ = {key: value for key, value in os.environ.items() if key != "ICEMIRROR_CRASH_AT"}
    if crash_at:
        environ["ICEMIRROR_CRASH_AT"] = crash_at
    completed = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environ, capture_output=True, text=True, check=False
    )
    return completed.returncode, completed.stdout.replace("\n", "")


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


def test_crash_point_without_the_variable_has_no_effect() -> None:
    crash_point("here")
