"""`make soak`: fresh random schedules through the whole merge for a while, and the deep bounds of the protocol.

Each run goes on counting where the last one stopped (`soak.json` in the cache). A seed that fails prints itself,
is kept in the report, and stops the run.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests import maven
from tests.cache import cache_directory
from tests.oracle.key_pools import KEY_KINDS
from tests.services import processes
from tests.services.fault_lakes import KINDS, FaultServers
from tests.services.fault_run import COMMITS, run_faults
from tests.sim.merge.test_schedules import run_schedule
from tests.sim.protocol.soak import explore


@dataclass
class Report:
    """What all runs together have shown."""

    seeds: int = 0
    seconds: float = 0.0
    failed: list[tuple[str, int]] = field(default_factory=list)
    fault_seeds: int = 0
    fault_seconds: float = 0.0
    surfaced: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Report:
        return cls(**json.loads(path.read_text())) if path.exists() else cls()

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self)))
        fresh.replace(path)


def soak(report: Report, path: Path, seconds: float) -> bool:
    """Runs schedules until the time is over; False at the first that fails."""
    end = time.monotonic() + seconds
    dice = random.SystemRandom()
    while time.monotonic() < end:
        began = time.monotonic()
        key, seed = dice.choice(sorted(KEY_KINDS)), dice.randrange(1 << 32)
        with tempfile.TemporaryDirectory(prefix="icemirror-soak-") as folder:
            try:
                run_schedule(Path(folder), key, seed)
            except Exception:
                traceback.print_exc()
                report.failed.append((key, seed))
                report.save(path)
                print(f"FAILED: key {key}, seed {seed}", flush=True)
                return False
        report.seeds += 1
        report.seconds += time.monotonic() - began
        report.save(path)
    return True


def soak_faults(report: Report, path: Path, seconds: float, commits: int = COMMITS) -> bool:
    """Runs schedules through broken catalogs and storage until the time is over; False at the first that fails."""
    end = time.monotonic() + seconds
    dice = random.SystemRandom()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="icemirror-faults-")))
        servers = FaultServers(folder, stack)
        while time.monotonic() < end:
            began = time.monotonic()
            kind, seed = KINDS[report.fault_seeds % len(KINDS)], dice.randrange(1 << 32)
            own = folder / str(seed)
            own.mkdir()
            try:
                with servers.lake(kind, seed) as (lake, plans):
                    surfaced = run_faults(own, lake, plans, seed, commits)
            except Exception:
                traceback.print_exc()
                report.failed.append((f"faults on {kind}", seed))
                report.save(path)
                print(f"FAILED: faults on {kind}, seed {seed}", flush=True)
                return False
            report.fault_seeds += 1
            report.fault_seconds += time.monotonic() - began
            for name, count in surfaced.items():
                report.surfaced[str(name)] = report.surfaced.get(str(name), 0) + count
            report.save(path)
    return True


def main() -> int:
    """The protocol first, then schedules, then schedules through faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800, help="how long to run schedules")
    parser.add_argument(
        "--fault-seconds", type=float, default=1800, help="how long to run them through faults"
    )
    parser.add_argument("--no-protocol", action="store_true", help="schedules only")
    parser.add_argument("--report", type=Path, default=cache_directory() / "soak.json")
    options = parser.parse_args()
    for name, states, seconds, why in () if options.no_protocol else explore():
        print(f"{name:52s} {states:9,d} states {seconds:6.1f} s  {why or 'holds'}", flush=True)
        if why:
            return 1
    report = Report.load(options.report)
    good = soak(report, options.report, options.seconds)
    try:
        good = good and soak_faults(report, options.report, options.fault_seconds)
    except (maven.Unavailable, processes.Unavailable) as error:
        print(f"no faults: {error}", flush=True)
    print(
        f"{report.seeds} schedules in {report.seconds:.0f} s so far, {len(report.failed)} failed: {options.report}"
    )
    print(f"{report.fault_seeds} schedules through faults in {report.fault_seconds:.0f} s: {report.surfaced}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
