from __future__ import annotations

from itertools import count

import pytest

from icemirror.errors import CommitUnknown, Conflict, UnverifiedConflict
from spark_job.commit.retry import MAX_ATTEMPTS, ConflictRetries


def run(retries: ConflictRetries, success: int, error: type[Exception] = Conflict) -> int:
    """Let attempt number `success` succeed, and return its number."""
    attempts = count()
    while True:
        with retries:
            attempt = next(attempts)
            if attempt < success:
                raise error(f"attempt {attempt} lost")
            return attempt


def test_first_attempt_succeeds_without_a_second_one() -> None:
    assert run(ConflictRetries(exhausted="lost"), 0) == 0


@pytest.mark.parametrize("error", [Conflict, UnverifiedConflict])
def test_conflict_is_retried(error: type[Conflict]) -> None:
    assert run(ConflictRetries(exhausted="lost"), 3, error) == 3


def test_last_conflict_is_the_cause_when_every_attempt_conflicts() -> None:
    with pytest.raises(Conflict, match="every attempt lost") as raised:
        run(ConflictRetries(exhausted="every attempt lost"), 100)
    assert str(raised.value.__cause__) == f"attempt {MAX_ATTEMPTS - 1} lost"


def test_number_of_attempts_can_be_set() -> None:
    with pytest.raises(Conflict) as raised:
        run(ConflictRetries(exhausted="lost", attempts=2), 100)
    assert str(raised.value.__cause__) == "attempt 1 lost"


@pytest.mark.parametrize("error", [CommitUnknown, ValueError])
def test_other_errors_are_not_retried(error: type[Exception]) -> None:
    with pytest.raises(error, match="attempt 0 lost"):
        run(ConflictRetries(exhausted="lost"), 100, error)


def test_exhausted_loop_inside_another_one_is_not_retried() -> None:
    attempts = list[int]()

    def run_inner() -> int:
        retries = ConflictRetries(exhausted="inner lost")
        while True:
            with retries:
                attempts.append(1)
                raise Conflict("another writer committed first")

    def run_outer() -> int:
        retries = ConflictRetries(exhausted="outer lost")
        while True:
            with retries:
                return run_inner()

    with pytest.raises(Conflict, match="inner lost"):
        run_outer()
    assert len(attempts) == MAX_ATTEMPTS
