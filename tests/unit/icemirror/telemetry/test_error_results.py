"""Error results fit into a state row, with secrets masked."""

from __future__ import annotations

from icemirror.errors import Invalid
from icemirror.telemetry.error_results import MAX_MESSAGE_CHARACTERS, to_error_result
from icemirror.telemetry.redaction import forget_secrets, register_secret


def test_very_long_message_is_shortened() -> None:
    message = to_error_result(Invalid(f"column {'x' * 1_000_000} is not known")).message
    assert len(message) == MAX_MESSAGE_CHARACTERS
    assert message.startswith("column xxx")
    assert message.endswith("…")


def test_short_message_is_kept() -> None:
    assert to_error_result(Invalid("no")).message == "no"


def test_secret_is_masked_before_the_message_is_shortened() -> None:
    register_secret("hunter2-and-more")
    message = to_error_result(
        Invalid("x" * (MAX_MESSAGE_CHARACTERS - 5) + "hunter2-and-more" + "y" * 100)
    ).message
    forget_secrets()
    assert "hunt" not in message
