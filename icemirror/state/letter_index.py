"""Which dead letters there are, as one small document: so that bounding them reads none of the letters.

For stores that pay for every byte that they look through. A letter is in the index before it is written, and is deleted
before it leaves the index: whoever dies in between leaves an entry without a letter, never a letter that nobody counts.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from icemirror.errors import Transient
from icemirror.state.letters import Letter, surplus

VERSION = 1
_TRIES = 50
_LONGEST_PAUSE_SECONDS = 0.5

Times = Mapping[str, float]
"""When each letter came, by its id."""


@dataclass(frozen=True)
class LetterIndex:
    """The index of one store. `read` gives body and revision, both empty where there is none yet; `write` is on it.

    `times` reads the letters themselves: once, where there is no index, or none that this release can read.
    """

    read: Callable[[], tuple[str, str]]
    write: Callable[[str, str], bool]
    times: Callable[[], Iterable[tuple[str, float]]]
    delete: Callable[[str], object]
    most: int
    sleep: Callable[[float], None] = time.sleep

    def admit(self, letter: Letter) -> bool:
        """Enters a letter, and deletes those that have to go for it; False if it is older than all that may stay."""

        def enter(known: Times) -> Times:
            times = {**known, letter.id: letter.received_at}
            gone = frozenset(surplus(times.items(), letter.received_at, self.most))
            for one in gone:
                self.delete(one)
            return {one: at for one, at in times.items() if one not in gone}

        return letter.id in self._change(enter)

    def forget(self, letter_id: str) -> None:
        """Strikes out a letter that was deleted."""
        if load_times(self.read()[0]) is None:  # it will be made from the letters that are left
            return
        self._change(lambda known: {one: at for one, at in known.items() if one != letter_id})

    def _change(self, change: Callable[[Times], Times]) -> Times:
        for attempt in range(_TRIES):
            body, revision = self.read()
            known = load_times(body)
            found = dict(self.times()) if known is None else known
            changed = change(found)
            if changed == known or self.write(revision, dump_times(changed)):
                return changed
            self.sleep(min(0.01 * 2 ** min(attempt, 6), _LONGEST_PAUSE_SECONDS) * random.random())  # noqa: S311
        raise Transient("the dead letters of the state kept changing: one could not be kept or removed")


def dump_times(times: Times) -> str:
    """As JSON."""
    return json.dumps({"version": VERSION, "letters": dict(times)}, separators=(",", ":"))


def load_times(body: str) -> dict[str, float] | None:
    """What was stored; None if there is nothing, or nothing that this release can read."""
    try:
        document = json.loads(body)
        if document["version"] != VERSION:
            return None
        return {str(one): float(at) for one, at in document["letters"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
