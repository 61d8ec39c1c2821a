"""Dead letters: events that could not be used, kept for a person, bounded in size, number and age."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from icemirror.errors import IcemirrorError, Invalid

VERSION = 1
MAX_LETTERS = 200
MAX_AGE_SECONDS = 14 * 86400.0
MAX_BODY_BYTES = 64 * 1024
_PART_BYTES = 4 * 1024  # of an event that is larger, which cannot be sent again anyhow
_MAX_REASON_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Letter:
    """An event that could not be used. `whole`: the body is all that came, so that it can be sent again."""

    id: str
    source: str
    reason: str
    received_at: float
    body: str
    whole: bool = True
    version: Literal[1] = 1


Redrive = Callable[[Letter], None]
"""Takes a letter as its source would take the event now; raises an `IcemirrorError` if it still cannot be used."""

_LETTER = TypeAdapter(Letter)


def write_letter(source: str, reason: str, received_at: float, body: bytes | str) -> Letter:
    """The letter about an event. The same event of the same source has the same id, however often it comes."""
    came = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    name = hashlib.sha256(source.encode() + b"\0" + came).hexdigest()[:16]
    kept = came[: MAX_BODY_BYTES if len(came) <= MAX_BODY_BYTES else _PART_BYTES].decode("utf-8", "replace")
    whole = kept.encode() == came
    return Letter(name, source, reason[:_MAX_REASON_CHARACTERS], received_at, kept, whole)


def dump_letter(letter: Letter) -> str:
    """The letter as JSON."""
    return json.dumps(asdict(letter), separators=(",", ":"))


def load_letter(letter_id: str, body: str) -> Letter:
    """A stored letter; one that cannot be read stands in for itself, so that it can be seen and dropped."""
    try:
        return _LETTER.validate_python({**json.loads(body), "id": letter_id})
    except (ValueError, TypeError, ValidationError):
        reason = "this release cannot read the letter: it is damaged, or a newer icemirror wrote it"
        return Letter(letter_id, "unknown", reason, 0.0, body[:MAX_BODY_BYTES], whole=False)


def surplus(received: Iterable[tuple[str, float]], now: float, most: int = MAX_LETTERS) -> list[str]:
    """Ids of the letters that must go, of these with the times at which they came: the old, then the oldest."""
    by_age = sorted(received, key=lambda one: one[1], reverse=True)
    return [name for at, (name, came) in enumerate(by_age) if at >= most or came < now - MAX_AGE_SECONDS]


def redrive_letters(
    letters: Iterable[Letter], redrive: Redrive, remove: Callable[[str], object]
) -> Iterator[tuple[Letter, IcemirrorError | None]]:
    """Sends letters again, one by one: what is taken is removed, what is refused stays, with the error why.

    Removed only afterwards: an event that comes twice does no harm, one that is lost might.
    """
    for letter in letters:
        if not letter.whole:
            yield letter, Invalid("only a part of the event was kept, which cannot be sent again: drop it")
            continue
        try:
            redrive(letter)
        except IcemirrorError as error:
            yield letter, error
        else:
            remove(letter.id)
            yield letter, None
