"""`make soak`: the deep bounds of the protocol, then the whole merge for a while: in memory through faults and other
writers, over mutated files, over random schedules on files, and through broken catalogs and storage.

Each run goes on counting where the last one stopped (`soak.json` in the cache). A seed that fails prints itself and
is kept in the report; one of a schedule stops the run.
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
from tests.sim.engine.bugs import BUGS
from tests.sim.engine.soak import COMMAND, Total, first_seed_that_finds, tell_for
from tests.sim.merge.test_schedules import run_schedule
from tests.sim.mutation import soak as mutation
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
    engine: Total = field(default_factory=Total)
    planted: dict[str, int | None] = field(default_factory=dict)
    mutation: mutation.Total = field(default_factory=mutation.Total)

    @classmethod
    def load(cls, path: Path) -> Report:
        if not path.exists():
            return cls()
        stored = json.loads(path.read_text())
        totals = {
            "engine": Total(**stored.get("engine", {})),
            "mutation": mutation.Total(**stored.get("mutation", {})),
        }
        return cls(**{**stored, **totals})

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


def soak_engine(report: Report, path: Path, seconds: float) -> bool:
    """Seeds of the simulation until the time is over; False if any failed."""
    good = True
    for told in tell_for(seconds, report.engine.next_seed):
        report.engine.add(told)
        report.save(path)
        if told.why:
            good = False
            print(f"{told.why}\nFAILED: {COMMAND} {told.seed}", flush=True)
    return good


def soak_mutation(report: Report, path: Path, seconds: float) -> bool:
    """Mutated files until the time is over; False if any failed."""
    good = True
    for told in mutation.tell_for(seconds, report.mutation.next_seed):
        report.mutation.add(told)
        report.save(path)
        if told.why:
            good = False
            print(f"{told.why}\nFAILED: {mutation.COMMAND} {told.seed}", flush=True)
    return good


def hunt_planted(report: Report, path: Path) -> bool:
    """Every planted mistake that no run has found yet; False if one stays hidden."""
    for name in sorted(BUGS):
        if report.planted.get(name) is None:
            report.planted[name] = first_seed_that_finds(name)
            report.save(path)
            print(f"planted: {name}: seed {report.planted[name]}", flush=True)
    return all(report.planted[name] is not None for name in BUGS)


def main() -> int:
    """The protocol first, then planted mistakes and seeds in memory, mutated files, schedules, and some with faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800, help="how long to run schedules")
    parser.add_argument("--engine-seconds", type=float, default=1800, help="how long to run seeds in memory")
    parser.add_argument("--mutation-seconds", type=float, default=1800, help="how long to mutate files")
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
    good = True
    if options.engine_seconds:
        good = hunt_planted(report, options.report)
        good = soak_engine(report, options.report, options.engine_seconds) and good
    good = soak_mutation(report, options.report, options.mutation_seconds) and good
    good = soak(report, options.report, options.seconds) and good
    try:
        if options.fault_seconds:
            good = good and soak_faults(report, options.report, options.fault_seconds)
    except (maven.Unavailable, processes.Unavailable) as error:
        print(f"no faults: {error}", flush=True)
    engine = report.engine
    print(
        f"{engine.seeds} seeds in memory in {engine.seconds:.0f} s so far, {engine.snapshots} snapshots judged, "
        f"{len(engine.failed)} failed; died at {engine.deaths}"
    )
    print("\n".join(report.mutation.lines()))
    print(
        f"{report.seeds} schedules in {report.seconds:.0f} s so far, {len(report.failed)} failed: {options.report}"
    )
    print(f"{report.fault_seeds} schedules through faults in {report.fault_seconds:.0f} s: {report.surfaced}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
