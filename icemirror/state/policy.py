"""The numbers that the protocol's rules depend on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """How long to wait, how often to try, how many workers to have.

    `launch_lease_seconds`: a launch that nobody recorded is repeated after that time, with the same token.
    `scale_out_seconds`: a table that could have been taken for so long wants one more worker.
    `probation_seconds`: what was quarantined for a passing reason gets one more try after that time.
    `recheck_seconds`: a table that was merged so long ago is looked at again, whether its changelog moved or not.
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
        """Seconds to wait after the n-th failure in a row; `jitter` in [0, 1) spreads failures."""
        longest = self.backoff_seconds * self.backoff_factor ** min(failures - 1, 20)
        return min(longest, self.max_backoff_seconds) * (0.5 + jitter / 2)
