"""When a lingering worker has to read the rows again."""

from __future__ import annotations

from dataclasses import dataclass

MAX_POLL_SECONDS = 5.0
"""Longest time between two polls. A change token is only a hint: a change may be lost, and older releases set none."""


@dataclass(frozen=True, slots=True)
class LastPoll:
    """The last poll of the rows: the store's change token before it, its time, and when to poll next anyway.

    `due_at`: a waiting table becomes due. `ends_at`: the worker has lingered long enough.
    `max_seconds`: poll after this time even if the token is unchanged.
    """

    token: str
    at: float
    due_at: float | None
    ends_at: float
    max_seconds: float = MAX_POLL_SECONDS

    def is_fresh(self, token: str, now: float) -> bool:
        """Return whether another poll would show the same rows."""
        if token != self.token or not self.at <= now < min(self.ends_at, self.at + self.max_seconds):
            return False
        return self.due_at is None or now < self.due_at
