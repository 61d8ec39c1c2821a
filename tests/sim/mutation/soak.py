"""Mutated files as a campaign, in processes that may take neither much memory nor much time."""

from __future__ import annotations

import resource
import sys
from collections import Counter

from tests.sim.mutation.bugs import BUGS
from tests.sim.mutation.run import run_seed
from tests.soak.campaign import Campaign

MOST_BYTES = 2 << 30


def run(seed: int, bug: str | None = None) -> Counter[str]:
    """What became of the file, by its class."""
    outcome = run_seed(seed, BUGS[bug] if bug else None)
    return Counter([f"{outcome.file_class}: {outcome.ended}"])


def limit_memory() -> None:
    """No more address space than the bound: what would take more fails where it asks for it."""
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


MUTATION = Campaign(
    "mutation",
    "one file of mirror, index or changelog damaged, and a merge",
    run,
    "python -m tests.sim.mutation",
    prepare=limit_memory,
    most_seconds=10,
    patience_seconds=120,
)
