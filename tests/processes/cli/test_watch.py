"""`watch` as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.icemirror.cli.trigger_state import CONFIG, create_catalog, merged, put, tables


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "icemirror.yaml").write_text(CONFIG.format(folder=tmp_path))
    monkeypatch.setenv("ICEMIRROR_CONFIG", str(tmp_path / "icemirror.yaml"))
    return tmp_path


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_watch_stops_on_signal(folder: Path, number: signal.Signals, code: int) -> None:
    create_catalog(folder, "orders_changelog")
    put(folder, merged("shop.orders"))
    watch = subprocess.Popen(
        [sys.executable, "-m", "icemirror", "watch"], env=os.environ, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 60
    while "shop.items" not in tables(folder):  # the first round has recorded that this table has no changelog
        assert time.monotonic() < until
        time.sleep(0.02)
    watch.send_signal(number)
    assert watch.wait(20) == code
