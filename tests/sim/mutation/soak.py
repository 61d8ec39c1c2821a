"""Mutated files as a campaign, in processes with limited memory and time."""

from __future__ import annotations

import resource
import sys
from collections import Counter

from tests.sim.mutation.planted_defects import PLANTED
from tests.sim.mutation.run import run_seed
from tests.soak.campaign import Campaign

MAX_BYTES = 2 << 30


def run(seed: int, defect: str | None = None) -> Counter[str]:
    """Return the outcome with the class of the file."""
    outcome = run_seed(seed, PLANTED[defect] if defect else None)
    return Counter([f"{outcome.file_class}: {outcome.ended}"])


def limit_memory() -> None:
    """Limit the address space, so that a larger allocation fails where it is made."""
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))


MUTATION = Campaign(
    "mutation",
    "one file of mirror, index or changelog damaged, and a merge",
    run,
    "python -m tests.sim.mutation",
    prepare=limit_memory,
    most_seconds=10,
    patience_seconds=120,
)
