"""The polls of a lingering worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from icemirror.protocol.worker import MAX_POLL_SECONDS, LastPoll

LAST = LastPoll("m1", polled_at=100.0, due_at=None, ends_at=160.0)


def test_unchanged_token_is_not_polled_for_a_while() -> None:
    assert LAST.is_fresh("m1", 100.25)
    assert LAST.is_fresh("m1", 99.9 + MAX_POLL_SECONDS)
    assert not LAST.is_fresh("m1", 100.0 + MAX_POLL_SECONDS)


def test_changed_token_is_polled_at_once() -> None:
    assert not LAST.is_fresh("m2", 100.25)
    assert not LAST.is_fresh("", 100.25), "an unreachable store"


@pytest.mark.parametrize("change", [{"due_at": 101.0}, {"ends_at": 101.0}, {"max_seconds": 1.0}])
def test_due_time_and_end_of_lingering_are_not_missed(change: dict[str, Any]) -> None:
    last = replace(LAST, **change)
    assert last.is_fresh("m1", 100.9)
    assert not last.is_fresh("m1", 101.0)


def test_clock_that_was_set_back_does_not_stop_polling() -> None:
    assert not LAST.is_fresh("m1", 50.0)
