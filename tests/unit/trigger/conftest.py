"""Fixtures of the trigger's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.trigger.scene import Scene
from trigger.tables import registry


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A fleet on fake catalogs."""
    made: list[Scene] = []
    monkeypatch.setattr(registry, "open_head_source", lambda properties, name: made[0].catalogs[name])
    made.append(Scene(tmp_path))
    yield made[0]
    made[0].close()
