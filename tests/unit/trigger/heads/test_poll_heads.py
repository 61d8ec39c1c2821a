"""Polling several catalogs at once: a slow or unreachable one delays no other."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from icemirror.errors import Invalid, Transient
from icemirror.settings import TableSettings
from tests.unit.trigger.fakes import FakeHeads, as_error, settings
from trigger.heads.poll_heads import HeadPoller

TIMEOUT = 5.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def tables(tmp_path: Path) -> tuple[TableSettings, ...]:
    return settings(tmp_path).tables


@pytest.fixture
def catalogs() -> dict[str | None, FakeHeads]:
    return {None: FakeHeads({"shop.orders_changelog": "m1"}), "other": FakeHeads({"raw.items": "i1"})}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def poller(catalogs: dict[str | None, FakeHeads], clock: Clock) -> HeadPoller:
    return HeadPoller(catalogs.__getitem__, clock)


def test_heads_are_returned_by_mirror(poller: HeadPoller, tables: tuple[TableSettings, ...]) -> None:
    assert poller.poll(tables, TIMEOUT) == {"shop.orders": "m1", "shop.items": "i1"}


def test_unreachable_catalog_affects_only_its_tables(
    poller: HeadPoller,
    tables: tuple[TableSettings, ...],
    catalogs: dict[str | None, FakeHeads],
    clock: Clock,
) -> None:
    catalogs["other"].error = Transient("no answer")
    found = poller.poll(tables, TIMEOUT)
    assert found["shop.orders"] == "m1"
    assert isinstance(found["shop.items"], Transient)
    assert poller.failures(tables[1]) == 1


def test_failed_catalog_is_polled_again_after_a_growing_backoff(
    poller: HeadPoller,
    tables: tuple[TableSettings, ...],
    catalogs: dict[str | None, FakeHeads],
    clock: Clock,
) -> None:
    catalogs["other"].error = Transient("no answer")
    poller.poll(tables, TIMEOUT)
    assert "shop.items" not in poller.poll(tables, TIMEOUT)
    clock.now = 1.0
    assert "shop.items" in poller.poll(tables, TIMEOUT)
    clock.now = 2.0
    assert "shop.items" not in poller.poll(tables, TIMEOUT)
    assert poller.failures(tables[1]) == 2
    catalogs["other"].error = None
    clock.now = 3.0
    assert poller.poll(tables, TIMEOUT)["shop.items"] == "i1"
    assert poller.failures(tables[1]) == 0


def test_slow_catalog_responds_to_a_later_poll_and_is_called_once(
    poller: HeadPoller, tables: tuple[TableSettings, ...], catalogs: dict[str | None, FakeHeads]
) -> None:
    response, calls = threading.Event(), list[int]()

    def wait() -> None:
        calls.append(1)
        response.wait(20)

    catalogs["other"].before = wait
    assert poller.poll(tables, 0.05) == {"shop.orders": "m1"}
    assert poller.poll(tables, 0.05) == {"shop.orders": "m1"}
    response.set()
    assert poller.poll(tables, TIMEOUT)["shop.items"] == "i1"
    assert len(calls) == 1


def test_missing_table_is_reported_with_the_others(
    poller: HeadPoller, tables: tuple[TableSettings, ...], catalogs: dict[str | None, FakeHeads]
) -> None:
    catalogs[None].heads.clear()
    assert isinstance(poller.poll(tables, TIMEOUT)["shop.orders"], Invalid)
    assert poller.failures(tables[0]) == 0


def test_unexpected_failure_is_transient_and_hides_its_message(
    poller: HeadPoller, tables: tuple[TableSettings, ...], catalogs: dict[str | None, FakeHeads]
) -> None:
    catalogs[None].error = KeyError("some secret")
    error = as_error(poller.poll(tables, TIMEOUT)["shop.orders"])
    assert isinstance(error, Transient)
    assert "secret" not in str(error)


def test_catalog_that_cannot_be_opened_affects_only_its_tables(
    tables: tuple[TableSettings, ...],
) -> None:
    def source(name: str | None) -> FakeHeads:
        if name == "other":
            raise Invalid("cannot ask a catalog of type hive")
        return FakeHeads({"shop.orders_changelog": "m1"})

    poller = HeadPoller(source)
    found = poller.poll(tables, TIMEOUT)
    assert found["shop.orders"] == "m1"
    assert isinstance(found["shop.items"], Invalid)


def test_pending_catalog_has_unknown_heads_and_fails_after_a_minute(
    poller: HeadPoller,
    tables: tuple[TableSettings, ...],
    catalogs: dict[str | None, FakeHeads],
    clock: Clock,
) -> None:
    response = threading.Event()
    catalogs["other"].before = lambda: response.wait(20)
    assert poller.has_unknown_heads(tables[1])
    poller.poll(tables, 0.05)
    assert (poller.has_unknown_heads(tables[0]), poller.has_unknown_heads(tables[1])) == (False, True)
    assert poller.failures(tables[1]) == 0
    clock.now = 61.0
    timed_out = as_error(poller.poll(tables, 0.05)["shop.items"])
    assert isinstance(timed_out, Transient)
    assert poller.failures(tables[1]) == 1
    clock.now = 119.0
    assert str(as_error(poller.poll(tables, 0.05)["shop.items"])) == str(timed_out), "each change is a write"
    response.set()
    assert poller.poll(tables, TIMEOUT)["shop.items"] == "i1"
    assert not poller.has_unknown_heads(tables[1])
    assert poller.failures(tables[1]) == 0


def test_catalog_with_one_unreadable_table_has_unknown_heads(
    poller: HeadPoller, tables: tuple[TableSettings, ...], catalogs: dict[str | None, FakeHeads]
) -> None:
    catalogs["other"].load_heads = lambda tables: dict.fromkeys(tables, Transient("not now"))  # type: ignore[method-assign]
    assert isinstance(poller.poll(tables, TIMEOUT)["shop.items"], Transient)
    assert poller.has_unknown_heads(tables[1])
