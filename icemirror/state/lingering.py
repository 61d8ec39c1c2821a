"""When a lingering worker has to look at the rows again: hardly ever, where nothing happens."""

from __future__ import annotations

from dataclasses import dataclass

MOST_SECONDS = 5.0
"""So long without a look at most: a mark is a hint, which may be lost, and older releases set none."""


@dataclass(frozen=True, slots=True)
class LastLook:
    """The store's mark before the last look, when that was, and when there will be something to do anyway.

    `due_at`: a table that waits may be taken. `ends_at`: the worker has lingered long enough. `most_seconds`: after
    that it looks whatever the mark says.
    """

    mark: str
    at: float
    due_at: float | None
    ends_at: float
    most_seconds: float = MOST_SECONDS

    def still_holds(self, mark: str, now: float) -> bool:
        """To look again would show the same."""
        if mark != self.mark or not self.at <= now < min(self.ends_at, self.at + self.most_seconds):
            return False
        return self.due_at is None or now < self.due_at
