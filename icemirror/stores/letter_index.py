"""Index of the dead letters as one small document, so that enforcing the limits reads no letter.

For stores that charge for every byte read. A letter enters the index before it is written, and is deleted before it
leaves the index: a crash in between leaves an entry without a letter, never a letter without an entry.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from icemirror.errors import Transient
from icemirror.stores.dead_letters import DeadLetter, letters_to_drop
from icemirror.stores.pause import pause_seconds

VERSION = 1
_MAX_ATTEMPTS = 50
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.01, 0.5

ArrivalTimes = Mapping[str, float]
"""Arrival time of each letter, by id."""


@dataclass(frozen=True)
class LetterIndex:
    """The index of one store.

    `read` returns body and revision, both empty if there is no index yet. `write` takes the revision it replaces.
    `read_arrival_times` reads the letters themselves: only if there is no index, or none that this release can read.
    """

    read: Callable[[], tuple[str, str]]
    write: Callable[[str, str], bool]
    read_arrival_times: Callable[[], Iterable[tuple[str, float]]]
    delete: Callable[[str], object]
    max_letters: int
    sleep: Callable[[float], None] = time.sleep

    def add(self, letter: DeadLetter) -> bool:
        """Add a letter and delete those above the limits; return False if the letter itself is above them."""

        def add_letter(times: ArrivalTimes) -> ArrivalTimes:
            new_times = {**times, letter.id: letter.received_at}
            dropped_ids = frozenset(letters_to_drop(new_times.items(), letter.received_at, self.max_letters))
            for letter_id in dropped_ids:
                self.delete(letter_id)
            return _without(new_times, dropped_ids)

        return letter.id in self._change(add_letter)

    def remove(self, letter_id: str) -> None:
        """Remove a deleted letter from the index."""
        if load_times(self.read()[0]) is None:  # it will be rebuilt from the remaining letters
            return
        self._change(lambda times: _without(times, frozenset({letter_id})))

    def _change(self, change: Callable[[ArrivalTimes], ArrivalTimes]) -> ArrivalTimes:
        for attempt in range(_MAX_ATTEMPTS):
            body, revision = self.read()
            stored_times = load_times(body)
            times = dict(self.read_arrival_times()) if stored_times is None else stored_times
            new_times = change(times)
            if new_times == stored_times or self.write(revision, dump_times(new_times)):
                return new_times
            self.sleep(pause_seconds(attempt, _FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS))
        raise Transient(
            "dead letter not stored or removed: the index of dead letters kept changing; try again"
        )


def _without(times: ArrivalTimes, letter_ids: frozenset[str]) -> ArrivalTimes:
    return {letter_id: received_at for letter_id, received_at in times.items() if letter_id not in letter_ids}


def dump_times(times: ArrivalTimes) -> str:
    """Return the index as JSON."""
    return json.dumps({"version": VERSION, "letters": dict(times)}, separators=(",", ":"))


def load_times(body: str) -> dict[str, float] | None:
    """Return a stored index; None if there is none that this release can read."""
    try:
        document = json.loads(body)
        if document["version"] != VERSION:
            return None
        return {str(letter_id): float(received_at) for letter_id, received_at in document["letters"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
