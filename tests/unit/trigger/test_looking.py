"""Several catalogs at once: a slow or dead one holds up nobody else's tables."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from icemirror.errors import Invalid, Transient
from icemirror.settings import TableSettings
from tests.unit.trigger.fakes import FakeHeads, named, settings
from trigger.looking import Looking

PATIENCE = 5.0


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
def looking(catalogs: dict[str | None, FakeHeads], clock: Clock) -> Looking:
    return Looking(catalogs.__getitem__, clock)


def test_all_heads_are_known_by_mirror(looking: Looking, tables: tuple[TableSettings, ...]) -> None:
    assert looking.heads(tables, PATIENCE) == {"shop.orders": "m1", "shop.items": "i1"}


def test_a_catalog_that_is_down_concerns_its_own_tables_only(
    looking: Looking, tables: tuple[TableSettings, ...], catalogs: dict[str | None, FakeHeads], clock: Clock
) -> None:
    catalogs["other"].error = Transient("no answer")
    found = looking.heads(tables, PATIENCE)
    assert found["shop.orders"] == "m1"
    assert isinstance(found["shop.items"], Transient)
    assert looking.failures(tables[1]) == 1


def test_a_catalog_that_failed_is_asked_again_after_a_pause_that_grows(
    looking: Looking, tables: tuple[TableSettings, ...], catalogs: dict[str | None, FakeHeads], clock: Clock
) -> None:
    catalogs["other"].error = Transient("no answer")
    looking.heads(tables, PATIENCE)
    assert "shop.items" not in looking.heads(tables, PATIENCE)
    clock.now = 1.0
    assert "shop.items" in looking.heads(tables, PATIENCE)
    clock.now = 2.0
    assert "shop.items" not in looking.heads(tables, PATIENCE)
    assert looking.failures(tables[1]) == 2
    catalogs["other"].error = None
    clock.now = 3.0
    assert looking.heads(tables, PATIENCE)["shop.items"] == "i1"
    assert looking.failures(tables[1]) == 0


def test_a_slow_catalog_is_heard_later_and_asked_once(
    looking: Looking, tables: tuple[TableSettings, ...], catalogs: dict[str | None, FakeHeads]
) -> None:
    answer, asked = threading.Event(), list[int]()

    def wait() -> None:
        asked.append(1)
        answer.wait(20)

    catalogs["other"].before = wait
    assert looking.heads(tables, 0.05) == {"shop.orders": "m1"}
    assert looking.heads(tables, 0.05) == {"shop.orders": "m1"}
    answer.set()
    assert looking.heads(tables, PATIENCE)["shop.items"] == "i1"
    assert len(asked) == 1


def test_a_missing_table_is_told_beside_the_others(
    looking: Looking, tables: tuple[TableSettings, ...], catalogs: dict[str | None, FakeHeads]
) -> None:
    catalogs[None].heads.clear()
    assert isinstance(looking.heads(tables, PATIENCE)["shop.orders"], Invalid)
    assert looking.failures(tables[0]) == 0


def test_an_unforeseen_failure_is_transient_and_shows_nothing_of_its_text(
    looking: Looking, tables: tuple[TableSettings, ...], catalogs: dict[str | None, FakeHeads]
) -> None:
    catalogs[None].error = KeyError("some secret")
    error = named(looking.heads(tables, PATIENCE)["shop.orders"])
    assert isinstance(error, Transient)
    assert "secret" not in str(error)


def test_a_catalog_that_cannot_be_opened_concerns_its_own_tables_only(
    tables: tuple[TableSettings, ...],
) -> None:
    def source(name: str | None) -> FakeHeads:
        if name == "other":
            raise Invalid("cannot ask a catalog of type hive")
        return FakeHeads({"shop.orders_changelog": "m1"})

    looking = Looking(source)
    found = looking.heads(tables, PATIENCE)
    assert found["shop.orders"] == "m1"
    assert isinstance(found["shop.items"], Invalid)


def test_a_catalog_that_is_still_asked_leaves_us_blind_and_after_a_minute_has_failed(
    looking: Looking, tables: tuple[TableSettings, ...], catalogs: dict[str | None, FakeHeads], clock: Clock
) -> None:
    answer = threading.Event()
    catalogs["other"].before = lambda: answer.wait(20)
    assert looking.is_blind(tables[1])
    looking.heads(tables, 0.05)
    assert (looking.is_blind(tables[0]), looking.is_blind(tables[1])) == (False, True)
    assert looking.failures(tables[1]) == 0
    clock.now = 61.0
    told = named(looking.heads(tables, 0.05)["shop.items"])
    assert isinstance(told, Transient)
    assert looking.failures(tables[1]) == 1
    clock.now = 119.0
    assert str(named(looking.heads(tables, 0.05)["shop.items"])) == str(told), "each change is a write"
    answer.set()
    assert looking.heads(tables, PATIENCE)["shop.items"] == "i1"
    assert not looking.is_blind(tables[1])
    assert looking.failures(tables[1]) == 0


def test_one_table_that_a_catalog_does_not_tell_of_is_asked_for_again_soon(
    looking: Looking, tables: tuple[TableSettings, ...], catalogs: dict[str | None, FakeHeads]
) -> None:
    catalogs["other"].look = lambda tables: dict.fromkeys(tables, Transient("not now"))  # type: ignore[method-assign]
    assert isinstance(looking.heads(tables, PATIENCE)["shop.items"], Transient)
    assert looking.is_blind(tables[1])


def test_a_catalog_that_never_answers_keeps_no_process() -> None:
    begin = "import time; from trigger.looking import in_background; in_background(lambda: time.sleep(60))"
    text = f"{begin}; print('ended', flush=True)"
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout.strip() == "ended"
