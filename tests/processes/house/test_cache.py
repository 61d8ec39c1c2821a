"""The download cache with several threads."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.provision.cache import fetch_once


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "icemirror"


def test_concurrent_threads_download_once(cache: Path) -> None:
    calls: list[int] = []

    def fetch(scratch: Path) -> Path:
        calls.append(1)
        time.sleep(0.2)
        (scratch / "x").write_text("whole")
        return scratch / "x"

    threads = [threading.Thread(target=fetch_once, args=("jars/a.jar", fetch)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]
    assert (cache / "jars" / "a.jar").read_text() == "whole"
