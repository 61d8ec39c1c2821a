"""Sentry in a process: uncaught errors, no DSN, no package."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

DSN = "http://public@127.0.0.1:9/1"


def test_uncaught_error_is_sent_and_stripped() -> None:
    script = f"""
import json
from sentry_sdk.transport import Transport
from icemirror.telemetry.sentry import open_sentry

class Printed(Transport):
    def capture_envelope(self, envelope):
        print(json.dumps(envelope.get_event(), default=str))

open_sentry({DSN!r}, project_ref="p", environment="e", transport=Printed())
row = "Ann-" + "row-value"
raise ValueError(row)
"""
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert completed.returncode == 1
    assert json.loads(completed.stdout)["exception"]["values"][0]["type"] == "ValueError"
    assert "Ann-row-value" not in completed.stdout


@pytest.mark.parametrize("dsn", [None, ""])
def test_missing_dsn_loads_and_sends_nothing(dsn: str | None) -> None:
    script = f"""
import sys
from icemirror.telemetry.sentry import open_sentry
open_sentry({dsn!r}, project_ref="p", environment="e")(ValueError("x"))
sys.exit("sentry_sdk" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_missing_package_causes_a_warning() -> None:
    script = f"""
import sys
sys.modules["sentry_sdk"] = None
from icemirror.telemetry.logs import configure_logs
from icemirror.telemetry.sentry import open_sentry
configure_logs(project_ref="p", environment="e", log_format="text")
open_sentry({DSN!r}, project_ref="p", environment="e")(ValueError("x"))
"""
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert completed.returncode == 0
    assert "Sentry disabled, install icemirror[telemetry]" in completed.stderr
