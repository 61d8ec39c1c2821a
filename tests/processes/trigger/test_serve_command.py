"""`icemirror serve` as a process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from icemirror.cli.main import run
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.stores.sqlite import SqliteStore
from tests.sim.protocol.toy_lake import ToyLake

ROOT = Path(__file__).parents[3]


def create_lake(folder: Path, trigger: str = "") -> Path:
    """Create a lake with quiet periods so long that no job is launched."""
    ToyLake(folder).create()
    config = folder / "icemirror.yaml"
    state = f"state: {{type: sqlite, path: {folder}/state.db}}"
    config.write_text(
        f"{config.read_text()}trigger: {{{state}, quiet_period: 10m, max_wait: 10m{trigger}}}\n"
        "telemetry: {prometheus: null}\n"
    )
    return config


@contextmanager
def serving(config: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command; yield the process and the address of its page."""
    command = [sys.executable, "-m", "icemirror", "serve", "-c", str(config), "--http", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=dict(os.environ))
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"status page: (http://\S+/)", line):
                yield process, found[1]
                break
        else:
            pytest.fail("the command did not start")
    finally:
        process.kill()
        process.stderr.close()
        process.wait()


def request(address: str, body: bytes | None = None) -> int:
    try:
        with urllib.request.urlopen(address, body, timeout=5) as answer:  # noqa: S310 (loopback)
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return refusal.code


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_serve_accepts_notices_reports_ready_and_stops_on_sigterm(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with serving(create_lake(tmp_path)) as (process, page):
        end = time.monotonic() + 30
        while request(f"{page}readyz") != 200 and time.monotonic() < end:
            time.sleep(0.1)
        assert (request(f"{page}healthz"), request(f"{page}readyz")) == (200, 200)
        assert request(f"{page}notify", b'{"table": "shop.orders"}') == 202
        assert request(f"{page}notify", b'{"table": "shop.nothing"}') == 404
        process.send_signal(number)
        assert process.wait(20) == code
    with SqliteStore(tmp_path / "state.db") as store:
        rows = store.load(ALL_ROWS)
    assert rows.tables["shop.orders"].dirty == 2, "one by the first sweep, one by the notice"
    assert not rows.slots


def test_http_source_without_an_address_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = create_lake(tmp_path, ", sources: {http: {token: long-enough}}")
    assert run(["serve", "-c", str(config)]) == 2
    assert "--http" in capsys.readouterr().err


def test_kafka_without_topics_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = create_lake(tmp_path, ", sources: {kafka: {bootstrap_servers: 'localhost:1'}}")
    assert run(["serve", "-c", str(config)]) == 2
    assert "topics" in capsys.readouterr().err


def test_error_for_http_source_without_an_address_names_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = create_lake(tmp_path, ", sources: {http: {token: secret}}")
    assert run(["serve", "-c", str(config)]) == 2
    assert capsys.readouterr().err == (
        "error: trigger.sources.http is configured, but `icemirror serve` has no address: add --http HOST:PORT\n"
    )
