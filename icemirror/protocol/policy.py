"""Numbers that the protocol's rules depend on, and how far deadlines of other machines are trusted."""

from __future__ import annotations

from dataclasses import dataclass

SKEW_SECONDS = 60.0
"""Clock difference that the protocol tolerates."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Wait times, retry limits and the number of worker slots.

    `slots`: the number of workers that a group may have at the same time.
    `lease_seconds`: a worker without a heartbeat for this long has died.
    `launch_lease_seconds`: repeat an unrecorded launch after this time, with the same token.
    `max_failures`: quarantine a table or slot after this many failures in a row.
    `quiet_seconds`: a table is due when no notice has arrived for this long.
    `max_wait_seconds`: a table is due this long after its first notice, even if notices keep arriving.
    `scale_out_seconds`: launch another worker when a due table has waited this long.
    `backoff_seconds`: wait this long after the first failure, `backoff_factor` times as long after each further one.
    `max_backoff_seconds`: wait at most this long after a failure.
    `probation_seconds`: retry a table or slot that was quarantined after transient failures once per this period.
    `recheck_seconds`: merge a table again when its last merge is this old, even if its changelog has not changed.
    """

    slots: int = 1
    lease_seconds: float = 600.0
    launch_lease_seconds: float = 60.0
    max_failures: int = 5
    quiet_seconds: float = 2.0
    max_wait_seconds: float = 30.0
    scale_out_seconds: float = 30.0
    backoff_seconds: float = 2.0
    backoff_factor: float = 3.0
    max_backoff_seconds: float = 300.0
    probation_seconds: float = 3600.0
    recheck_seconds: float = 3600.0

    def backoff(self, failures: int, jitter: float) -> float:
        """Return the seconds to wait after the n-th failure in a row; `jitter` in [0, 1) spreads retries."""
        seconds = self.backoff_seconds * self.backoff_factor ** min(failures - 1, 20)
        return min(seconds, self.max_backoff_seconds) * (0.5 + jitter / 2)


def is_implausible(deadline: float, now: float, max_seconds: float) -> bool:
    """Return whether a deadline is too far ahead to come from a wait of at most `max_seconds`."""
    return deadline > now + max_seconds + SKEW_SECONDS


def trusted_deadline(deadline: float, now: float, max_seconds: float) -> float:
    """Return the deadline of a wait of at most `max_seconds`, or `now` if the deadline is implausible."""
    return now if is_implausible(deadline, now, max_seconds) else deadline
