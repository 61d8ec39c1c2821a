"""The tables that the trigger knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from icemirror.errors import BadConfig, Transient
from tests.unit.trigger.fakes import DISCOVER, TABLES, FakeHeads, settings
from trigger import registry as module
from trigger.registry import Registry

PATIENCE = 5.0


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> FakeHeads:
    catalog = FakeHeads({"raw.a_changelog": "a1", "raw.b_changelog": "b1", "raw.else": "e1"})
    monkeypatch.setattr(module, "open_source", lambda properties, name: catalog)
    return catalog


def test_tables_and_groups_come_from_the_configuration(tmp_path: Path, catalog: FakeHeads) -> None:
    registry = Registry(settings(tmp_path))
    registry.refresh()
    assert registry.groups == {"default", "heavy"}
    assert registry.names("heavy") == {"shop.items"}
    registry.close()


def test_matching_changelogs_become_tables_as_they_appear(tmp_path: Path, catalog: FakeHeads) -> None:
    registry = Registry(settings(tmp_path, DISCOVER))
    assert registry.tables == ()
    registry.refresh()
    assert registry.names("default") == {"shop.a", "shop.b"}
    catalog.heads["raw.c_changelog"] = "c1"
    registry.refresh()
    assert registry.names("default") == {"shop.a", "shop.b", "shop.c"}
    assert registry.heads(PATIENCE) == {"shop.a": "a1", "shop.b": "b1", "shop.c": "c1"}
    assert registry.seen == {"shop.a", "shop.b", "shop.c"}
    registry.close()
    assert catalog.closed


def test_a_catalog_that_does_not_answer_leaves_what_was_known(tmp_path: Path, catalog: FakeHeads) -> None:
    registry = Registry(settings(tmp_path, DISCOVER))
    registry.refresh()
    catalog.error = Transient("no answer")
    registry.refresh()
    registry.refresh()
    assert registry.names("default") == {"shop.a", "shop.b"}
    assert (registry.problem, registry.refusals) == (catalog.error, 2)
    catalog.error = None
    registry.refresh()
    assert (registry.problem, registry.refusals) == (None, 0)
    registry.close()


def test_an_error_that_nobody_named_leaves_what_was_known_too(tmp_path: Path, catalog: FakeHeads) -> None:
    registry = Registry(settings(tmp_path, DISCOVER))
    registry.refresh()
    catalog.error = RuntimeError("secret")
    registry.refresh()
    assert registry.names("default") == {"shop.a", "shop.b"}
    assert isinstance(registry.problem, Transient)
    assert "RuntimeError" in str(registry.problem)
    assert "secret" not in str(registry.problem)
    registry.close()


def test_tables_are_chosen_by_name_or_pattern(tmp_path: Path, catalog: FakeHeads) -> None:
    registry = Registry(settings(tmp_path, TABLES))
    assert [table.name for table in registry.choose(["raw.items"], None)] == ["shop.items"]
    assert [table.name for table in registry.choose((), "shop.*")] == ["shop.orders", "shop.items"]
    with pytest.raises(BadConfig, match=r"there are: shop\.orders, shop\.items"):
        registry.choose((), "sales.*")
    registry.close()
