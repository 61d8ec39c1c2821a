"""A catalog that hangs and responds later, in real time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.trigger.fakes import FakeHeads, settings
from trigger.tables import registry as module
from trigger.tables.registry import TableRegistry


def wait_until(done: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 20.0
    while not done():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


TWO_CATALOGS = """
discover:
  - {namespace: raw, match: "*_changelog", mirror_namespace: shop}
  - {namespace: far, match: "*_changelog", mirror_namespace: far, changelog_catalog: other}
"""


def test_hanging_catalog_is_waited_for_once_and_does_not_hide_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, release = FakeHeads({"far.b_changelog": "b1"}), threading.Event()
    responsive = FakeHeads({"raw.a_changelog": "a1"})
    hanging.before_list = lambda: release.wait(30.0)
    monkeypatch.setattr(module, "open_head_source", lambda properties, name: hanging if name else responsive)
    registry = TableRegistry(settings(tmp_path, TWO_CATALOGS))
    registry.refresh(catalog_timeout_seconds=0.1)
    assert registry.names() == {"shop.a"}
    assert "other" in str(registry.problem)
    assert registry.refresh_failures == 0, "a slow catalog has not failed yet"
    responsive.heads["raw.c_changelog"] = "c1"
    began = time.monotonic()
    registry.refresh(catalog_timeout_seconds=20.0)
    assert time.monotonic() - began < 10.0, "a hanging catalog is waited for once"
    assert registry.names() == {"shop.a", "shop.c"}
    release.set()

    def has_recovered() -> bool:
        registry.refresh(catalog_timeout_seconds=1.0)
        return registry.problem is None

    wait_until(has_recovered)
    assert registry.names() == {"shop.a", "shop.c", "far.b"}
    registry.close()
