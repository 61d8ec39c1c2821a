"""Seeds that found something once: mistakes that were mended, of the product or of its judge, and the planted ones."""

from __future__ import annotations

REGRESSIONS: tuple[int, ...] = (
    1193,  # jobs of two kinds, and a storage that does not answer: together as many failures as a table may have
    2218,  # an object was deleted by hand before anybody had recorded its launch, and rightly made again
)

# A seed that finds each planted mistake soon.
FOUND_BY: dict[str, int] = {
    "a new name for each call": 3,
    "queued counts as gone on Kubernetes": 3,
    "a job goes by another name": 3,
    "runs are known by id only": 5,
    "queued counts as gone on EMR": 8,
    "a run that never starts is waited for": 8,
    "a new client token for each call": 31,
    "ended counts as running on Kubernetes": 115,
}
