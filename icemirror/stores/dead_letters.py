"""Dead letters: hints that could not be parsed, kept for the user; bounded in size, number and age."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from icemirror.errors import IcemirrorError, Invalid

VERSION = 1
MAX_LETTERS = 200
MAX_AGE_SECONDS = 14 * 86400.0
MAX_BODY_BYTES = 64 * 1024
_PART_BYTES = 4 * 1024  # kept of a larger event, which cannot be sent again
_MAX_REASON_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A hint that could not be parsed. `whole`: the body is complete, so that it can be sent again."""

    id: str
    source: str
    reason: str
    received_at: float
    body: str
    whole: bool = True
    version: Literal[1] = 1


Redrive = Callable[[DeadLetter], None]
"""Handles a letter as its source would handle the event; raises an `IcemirrorError` if it is refused again."""


@cache
def _adapter() -> TypeAdapter[DeadLetter]:
    """Return the adapter, built lazily: it is slow to build, and most processes never read a letter."""
    return TypeAdapter(DeadLetter)


def new_letter(source: str, reason: str, received_at: float, body: bytes | str) -> DeadLetter:
    """Return the letter for an event. The same event of the same source always has the same id."""
    event = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    letter_id = hashlib.sha256(source.encode() + b"\0" + event).hexdigest()[:16]
    size = MAX_BODY_BYTES if len(event) <= MAX_BODY_BYTES else _PART_BYTES
    text = event[:size].decode("utf-8", "replace")
    is_complete = text.encode() == event
    return DeadLetter(letter_id, source, reason[:_MAX_REASON_CHARACTERS], received_at, text, is_complete)


def dump_letter(letter: DeadLetter) -> str:
    """Return the letter as JSON."""
    return json.dumps(asdict(letter), separators=(",", ":"))


def load_letter(letter_id: str, body: str) -> DeadLetter:
    """Return a stored letter. An unreadable letter is replaced by one with that reason."""
    try:
        return _adapter().validate_python({**json.loads(body), "id": letter_id})
    except (ValueError, TypeError, ValidationError):
        reason = "unreadable letter: it is damaged, or a newer icemirror wrote it"
        return DeadLetter(letter_id, "unknown", reason, 0.0, body[:MAX_BODY_BYTES], whole=False)


def letters_to_drop(
    letters: Iterable[tuple[str, float]], now: float, max_letters: int = MAX_LETTERS
) -> list[str]:
    """Return the ids of letters to drop: those that are too old, and the oldest above the limit.

    `letters`: the id and the arrival time of each.
    """
    newest_first = sorted(letters, key=lambda letter: letter[1], reverse=True)
    min_received_at = now - MAX_AGE_SECONDS
    return [
        letter_id
        for index, (letter_id, received_at) in enumerate(newest_first)
        if index >= max_letters or received_at < min_received_at
    ]


def redrive_letters(
    letters: Iterable[DeadLetter], redrive: Redrive, remove: Callable[[str], object]
) -> Iterator[tuple[DeadLetter, IcemirrorError | None]]:
    """Send letters again, one by one; yield each with its error, or None if it was accepted and removed.

    A letter is removed only after it was accepted: a duplicate event is harmless, a lost one may not be.
    """
    for letter in letters:
        if not letter.whole:
            yield letter, Invalid("only a part of the event was kept, so it cannot be sent again: drop it")
            continue
        try:
            redrive(letter)
        except IcemirrorError as error:
            yield letter, error
        else:
            remove(letter.id)
            yield letter, None
