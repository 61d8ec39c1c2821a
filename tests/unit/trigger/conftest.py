"""Fixtures of the trigger's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.trigger.scene import Scene
from trigger.tables import registry


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Return a dispatcher on fake catalogs."""
    scenes: list[Scene] = []
    monkeypatch.setattr(registry, "open_head_source", lambda properties, name: scenes[0].catalogs[name])
    scenes.append(Scene(tmp_path))
    yield scenes[0]
    scenes[0].close()
