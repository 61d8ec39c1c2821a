"""The registry of tables, with discovery."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from icemirror.errors import BadConfig, Transient
from tests.unit.trigger.fakes import DISCOVER, TABLES, FakeHeads, settings
from trigger.tables import registry as registry_module
from trigger.tables.registry import TableRegistry

TIMEOUT = 5.0


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> FakeHeads:
    catalog = FakeHeads({"raw.a_changelog": "a1", "raw.b_changelog": "b1", "raw.else": "e1"})
    monkeypatch.setattr(registry_module, "open_head_source", lambda properties, name: catalog)
    return catalog


def test_tables_and_groups_are_those_of_the_configuration(tmp_path: Path, catalog: FakeHeads) -> None:
    registry = TableRegistry(settings(tmp_path))
    registry.refresh()
    assert registry.groups == {"default", "heavy"}
    assert registry.names("heavy") == {"shop.items"}
    registry.close()


def test_matching_changelogs_become_tables(tmp_path: Path, catalog: FakeHeads) -> None:
    registry = TableRegistry(settings(tmp_path, DISCOVER))
    assert registry.tables == ()
    registry.refresh()
    assert registry.names("default") == {"shop.a", "shop.b"}
    catalog.heads["raw.c_changelog"] = "c1"
    registry.refresh()
    assert registry.names("default") == {"shop.a", "shop.b", "shop.c"}
    assert registry.poll_heads(TIMEOUT) == {"shop.a": "a1", "shop.b": "b1", "shop.c": "c1"}
    assert registry.tables_with_head == {"shop.a", "shop.b", "shop.c"}
    registry.close()
    assert catalog.closed


def test_known_tables_stay_while_the_catalog_is_unreachable(tmp_path: Path, catalog: FakeHeads) -> None:
    registry = TableRegistry(settings(tmp_path, DISCOVER))
    registry.refresh()
    catalog.error = Transient("no answer")
    registry.refresh()
    registry.refresh()
    assert registry.names("default") == {"shop.a", "shop.b"}
    assert (registry.problem, registry.refresh_failures) == (catalog.error, 2)
    catalog.error = None
    registry.refresh()
    assert (registry.problem, registry.refresh_failures) == (None, 0)
    registry.close()


def test_known_tables_stay_after_an_unexpected_error(tmp_path: Path, catalog: FakeHeads) -> None:
    registry = TableRegistry(settings(tmp_path, DISCOVER))
    registry.refresh()
    catalog.error = RuntimeError("secret")
    registry.refresh()
    assert registry.names("default") == {"shop.a", "shop.b"}
    assert isinstance(registry.problem, Transient)
    assert "RuntimeError" in str(registry.problem)
    assert "secret" not in str(registry.problem)
    registry.close()


TWO_CATALOGS = """
discover:
  - {namespace: raw, match: "*_changelog", mirror_namespace: shop}
  - {namespace: far, match: "*_changelog", mirror_namespace: far, changelog_catalog: other}
"""


def test_catalog_that_opens_slowly_delays_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = threading.Event()

    def open_head_source(_: object, name: str | None) -> FakeHeads:
        if name == "other":
            opened.wait(20.0)
        return FakeHeads({"shop.orders_changelog": "m1"})

    monkeypatch.setattr(registry_module, "open_head_source", open_head_source)
    orders = "tables: [{changelog: shop.orders_changelog, mirror: shop.orders, primary_keys: [id]}]"
    elsewhere = DISCOVER.strip().removesuffix("}]") + ", changelog_catalog: other}]"
    registry = TableRegistry(settings(tmp_path, f"{orders}\n{elsewhere}\n"))
    try:
        registry.refresh(0.1)
        assert registry.poll_heads(2.0) == {"shop.orders": "m1"}
    finally:
        opened.set()
        registry.close()


def test_catalog_that_does_not_respond_for_a_minute_counts_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung, released, now = FakeHeads(), threading.Event(), [0.0]
    hung.before_list = lambda: released.wait(30.0)
    monkeypatch.setattr(registry_module, "open_head_source", lambda properties, name: hung)
    registry = TableRegistry(settings(tmp_path, DISCOVER), clock=lambda: now[0])
    for seconds, failures in ((0.0, 0), (59.0, 0), (60.0, 1), (61.0, 2)):
        now[0] = seconds
        registry.refresh(catalog_timeout_seconds=0.01)
        assert registry.refresh_failures == failures
    assert "1 minute" in str(registry.problem)
    released.set()
    registry.close()


def test_discovered_tables_stay_while_their_catalog_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far, near = FakeHeads({"far.b_changelog": "b1"}), FakeHeads({"raw.a_changelog": "a1"})
    monkeypatch.setattr(registry_module, "open_head_source", lambda properties, name: far if name else near)
    registry = TableRegistry(settings(tmp_path, TWO_CATALOGS))
    registry.refresh()
    far.error = Transient("away")
    near.heads["raw.c_changelog"] = "c1"
    registry.refresh()
    assert registry.names() == {"shop.a", "shop.c", "far.b"}
    assert registry.problem is far.error
    registry.close()


def test_tables_are_chosen_by_name_or_by_pattern(tmp_path: Path, catalog: FakeHeads) -> None:
    registry = TableRegistry(settings(tmp_path, TABLES))
    assert [table.name for table in registry.select_tables(["raw.items"], None)] == ["shop.items"]
    assert [table.name for table in registry.select_tables((), "shop.*")] == ["shop.orders", "shop.items"]
    with pytest.raises(BadConfig, match=r"configured: shop\.orders, shop\.items"):
        registry.select_tables((), "sales.*")
    registry.close()
