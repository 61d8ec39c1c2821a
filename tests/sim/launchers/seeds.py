"""Seeds that detected defects: fixed ones of the product or of the judge, and planted ones."""

from __future__ import annotations

REGRESSIONS: tuple[int, ...] = (
    1193,  # jobs of two kinds and unreachable storage: together they reach max_failures
    2218,  # a user deleted an object before its launch was recorded, and it was rightly created again
)

# A seed that detects each planted defect quickly.
FOUND_BY: dict[str, int] = {
    "a new name for each call": 3,
    "queued counts as ended on Kubernetes": 3,
    "a job uses an unknown run id": 3,
    "runs are known by id only": 5,
    "queued counts as ended on EMR": 8,
    "a run that never starts is never cancelled": 8,
    "a new client token for each call": 31,
    "ended counts as running on Kubernetes": 115,
}
