"""When a lingering worker looks again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from icemirror.state.lingering import MOST_SECONDS, LastLook

LAST = LastLook("m1", at=100.0, due_at=None, ends_at=160.0)


def test_nothing_new_is_not_looked_at_for_a_while() -> None:
    assert LAST.still_holds("m1", 100.25)
    assert LAST.still_holds("m1", 99.9 + MOST_SECONDS)
    assert not LAST.still_holds("m1", 100.0 + MOST_SECONDS)


def test_another_mark_is_looked_at_at_once() -> None:
    assert not LAST.still_holds("m2", 100.25)
    assert not LAST.still_holds("", 100.25), "a store that does not answer"


@pytest.mark.parametrize("change", [{"due_at": 101.0}, {"ends_at": 101.0}, {"most_seconds": 1.0}])
def test_what_time_alone_brings_is_not_missed(change: dict[str, Any]) -> None:
    last = replace(LAST, **change)
    assert last.still_holds("m1", 100.9)
    assert not last.still_holds("m1", 101.0)


def test_a_clock_that_was_set_back_does_not_keep_it_from_looking() -> None:
    assert not LAST.still_holds("m1", 50.0)
