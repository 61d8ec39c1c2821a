"""Index of the dead letters as one small document, so that enforcing the limits reads no letter.

For stores that charge for every byte read. A letter enters the index before it is written, and is deleted before it
leaves the index: a crash in between leaves an entry without a letter, never a letter without an entry.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from icemirror.errors import Transient
from icemirror.stores.dead_letters import DeadLetter, letters_to_drop

VERSION = 1
_MAX_ATTEMPTS = 50
_MAX_PAUSE_SECONDS = 0.5

Times = Mapping[str, float]
"""Arrival time of each letter, by id."""


@dataclass(frozen=True)
class LetterIndex:
    """The index of one store.

    `read` returns body and revision, both empty if there is no index yet. `write` takes the revision it replaces.
    `times` reads the letters themselves: only if there is no index, or none that this release can read.
    """

    read: Callable[[], tuple[str, str]]
    write: Callable[[str, str], bool]
    times: Callable[[], Iterable[tuple[str, float]]]
    delete: Callable[[str], object]
    max_letters: int
    sleep: Callable[[float], None] = time.sleep

    def admit(self, letter: DeadLetter) -> bool:
        """Add a letter and delete those above the limits; return False if the letter itself is above them."""

        def enter(known: Times) -> Times:
            times = {**known, letter.id: letter.received_at}
            dropped = frozenset(letters_to_drop(times.items(), letter.received_at, self.max_letters))
            for letter_id in dropped:
                self.delete(letter_id)
            return {letter_id: at for letter_id, at in times.items() if letter_id not in dropped}

        return letter.id in self._change(enter)

    def forget(self, letter_id: str) -> None:
        """Remove a deleted letter from the index."""
        if load_times(self.read()[0]) is None:  # it will be rebuilt from the remaining letters
            return
        self._change(lambda known: {known_id: at for known_id, at in known.items() if known_id != letter_id})

    def _change(self, change: Callable[[Times], Times]) -> Times:
        for attempt in range(_MAX_ATTEMPTS):
            body, revision = self.read()
            known = load_times(body)
            found = dict(self.times()) if known is None else known
            changed = change(found)
            if changed == known or self.write(revision, dump_times(changed)):
                return changed
            self.sleep(min(0.01 * 2 ** min(attempt, 6), _MAX_PAUSE_SECONDS) * random.random())  # noqa: S311
        raise Transient(
            "dead letter not stored or removed: the index of dead letters kept changing; try again"
        )


def dump_times(times: Times) -> str:
    """Return the index as JSON."""
    return json.dumps({"version": VERSION, "letters": dict(times)}, separators=(",", ":"))


def load_times(body: str) -> dict[str, float] | None:
    """Return a stored index; None if there is none that this release can read."""
    try:
        document = json.loads(body)
        if document["version"] != VERSION:
            return None
        return {str(letter_id): float(at) for letter_id, at in document["letters"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
