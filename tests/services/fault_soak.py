"""Catalogs and storage that fail as a campaign: `python -m tests.services.fault_soak 17` runs a seed again."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from tests.services.fault_lakes import KINDS, FaultServers
from tests.services.fault_run import run_faults
from tests.soak.campaign import Campaign

COMMITS = 25


@cache
def _servers() -> FaultServers:
    """They end with this process."""
    return FaultServers(Path(tempfile.mkdtemp(prefix="icemirror-faults-")), ExitStack())


def start_servers() -> None:
    """Before the first seed, so that what cannot be had is told at once."""
    _servers()


def run(seed: int, _bug: str | None = None) -> Counter[str]:
    """Every kind of catalog in its turn."""
    kind = KINDS[seed % len(KINDS)]
    with (
        tempfile.TemporaryDirectory(prefix="icemirror-faults-") as folder,
        _servers().lake(kind, seed) as (lake, plans),
    ):
        surfaced = run_faults(Path(folder), lake, plans, seed, COMMITS)
    return Counter({f"{kind}: {name}": count for name, count in surfaced.items()}) + Counter(
        [f"{kind} seeds"]
    )


FAULTS = Campaign(
    "faults",
    "real catalogs and storage behind proxies that break requests",
    run,
    "python -m tests.services.fault_soak",
    prepare=start_servers,
    processes=12,  # they wait more than they work
)

if __name__ == "__main__":
    for name, count in run(int(sys.argv[1])).items():
        print(f"{count:6d} {name}")
