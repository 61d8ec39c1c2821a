"""Metrics that are sent to a collector, and metrics without the packages."""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from icemirror.telemetry import metric_names
from icemirror.telemetry import metrics as subject
from icemirror.telemetry.metrics import open_metrics


def test_metrics_are_sent_to_a_collector() -> None:
    received: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        opened = open_metrics(
            project_ref="shop", environment="dev", otlp=f"http://127.0.0.1:{server.server_port}/"
        )
        opened.count(metric_names.TABLE_SUCCESS, table="shop.orders")
        opened.close()
        server.shutdown()
    ((path, body),) = received
    assert path == "/v1/metrics"
    assert b"merger_table_success" in body
    assert b"shop.orders" in body


def test_missing_packages_cause_one_warning() -> None:
    script = """
import sys
for name in ("opentelemetry", "sentry_sdk", "prometheus_client"):
    sys.modules[name] = None
from icemirror.telemetry.logs import configure_logs
from icemirror.telemetry.metrics import open_metrics
from icemirror.telemetry.metric_names import LAUNCHES
configure_logs(project_ref="p", environment="e", log_format="text")
metrics = open_metrics(project_ref="p", environment="e")
metrics.count(LAUNCHES)
assert metrics.exposition() is None
"""
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    assert completed.stderr.count("\n") == 1
    assert "metrics disabled, install icemirror[telemetry]" in completed.stderr


def test_importing_telemetry_loads_neither_opentelemetry_nor_sentry() -> None:
    modules = [
        "error_results",
        "start_telemetry",
        "log_format",
        "logs",
        "metrics",
        "metric_names",
        "redaction",
        "result_metrics",
        "sentry",
    ]
    on_disk = {path.stem for path in Path(subject.__file__).parent.glob("*.py")} - {"__init__", "otel"}
    assert set(modules) == on_disk
    script = f"""
import importlib, sys
for name in {modules}:
    importlib.import_module("icemirror.telemetry." + name)
heavy = [m for m in sys.modules if m.split(".")[0] in ("opentelemetry", "sentry_sdk", "prometheus_client")]
sys.exit(str(heavy) if heavy else 0)
"""
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
