"""The soak campaign with failing catalogs and storage: `python -m tests.services.fault_soak 17` repeats a seed."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from tests.services.fault_lakes import KINDS, FaultServers
from tests.services.fault_run import assert_mirror_equals_oracle, run_faults
from tests.soak.campaign import Campaign

COMMITS = 25


@cache
def _servers() -> FaultServers:
    """Start the servers; they end with this process."""
    return FaultServers(Path(tempfile.mkdtemp(prefix="icemirror-faults-")), ExitStack())


def start_servers() -> None:
    """Start the servers before the first seed, so that an unavailable server is reported at once."""
    _servers()


def run(seed: int, _defect: str | None = None) -> Counter[str]:
    """Run a seed; the seeds rotate through the kinds of catalogs."""
    kind = KINDS[seed % len(KINDS)]
    with (
        tempfile.TemporaryDirectory(prefix="icemirror-faults-") as folder,
        _servers().lake(kind, seed) as (lake, plans),
    ):
        world, surfaced = run_faults(Path(folder), lake, plans, seed, COMMITS)
        assert_mirror_equals_oracle(world, seed)
    return Counter({f"{kind}: {name}": count for name, count in surfaced.items()}) + Counter(
        [f"{kind} seeds"]
    )


FAULTS = Campaign(
    "faults",
    "real catalogs and storage behind proxies that break requests",
    run,
    "python -m tests.services.fault_soak",
    prepare=start_servers,
    processes=12,  # they are mostly idle
)

if __name__ == "__main__":
    for name, count in run(int(sys.argv[1])).items():
        print(f"{count:6d} {name}")
