"""What a row keeps of an error is never more than a row can hold."""

from __future__ import annotations

from icemirror.errors import Invalid
from icemirror.failure import MOST_CHARACTERS, failure_of
from icemirror.telemetry.redaction import forget_secrets, register_secret


def test_a_very_long_message_is_cut_where_it_is_still_understood() -> None:
    said = failure_of(Invalid(f"column {'x' * 1_000_000} is not known")).message
    assert len(said) == MOST_CHARACTERS
    assert said.startswith("column xxx")
    assert said.endswith("…")


def test_a_short_one_is_kept() -> None:
    assert failure_of(Invalid("no")).message == "no"


def test_a_secret_at_the_cut_is_masked_first() -> None:
    register_secret("hunter2-and-more")
    said = failure_of(Invalid("x" * (MOST_CHARACTERS - 5) + "hunter2-and-more" + "y" * 100)).message
    forget_secrets()
    assert "hunt" not in said
