from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from icemirror.errors import CommitUnknown, Conflict, UnverifiedConflict
from spark_job.commit.retry import MAX_ATTEMPTS, retry_on_conflict


def conflict_until(success: int, error: type[Conflict] = Conflict) -> Callable[[int], int]:
    def execute(planned: int) -> int:
        if planned < success:
            raise error(f"attempt {planned} lost")
        return planned

    return execute


def test_first_attempt_succeeds_without_a_second_plan() -> None:
    plans = count()
    assert retry_on_conflict(plans.__next__, conflict_until(0), exhausted="lost") == 0
    assert next(plans) == 1


@pytest.mark.parametrize("error", [Conflict, UnverifiedConflict])
def test_each_attempt_executes_a_fresh_plan(error: type[Conflict]) -> None:
    assert retry_on_conflict(count().__next__, conflict_until(3, error), exhausted="lost") == 3


def test_last_conflict_is_the_cause_when_every_attempt_conflicts() -> None:
    plans = count()
    with pytest.raises(Conflict, match="every attempt lost") as raised:
        retry_on_conflict(plans.__next__, conflict_until(100), exhausted="every attempt lost")
    assert str(raised.value.__cause__) == f"attempt {MAX_ATTEMPTS - 1} lost"
    assert next(plans) == MAX_ATTEMPTS


def test_attempts_can_be_fewer() -> None:
    plans = count()
    with pytest.raises(Conflict):
        retry_on_conflict(plans.__next__, conflict_until(100), exhausted="lost", attempts=2)
    assert next(plans) == 2


@pytest.mark.parametrize("error", [CommitUnknown, ValueError])
def test_other_errors_are_not_retried(error: type[Exception]) -> None:
    plans = count()

    def execute(_: int) -> None:
        raise error("unknown outcome")

    with pytest.raises(error):
        retry_on_conflict(plans.__next__, execute, exhausted="lost")
    assert next(plans) == 1


def test_conflict_while_planning_is_not_retried() -> None:
    def plan() -> None:
        raise Conflict("cannot plan")

    with pytest.raises(Conflict, match="cannot plan"):
        retry_on_conflict(plan, lambda _: None, exhausted="lost")
