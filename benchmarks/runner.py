"""Runs parts on systems, cell by cell, and stores each cell as soon as it is measured."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from benchmarks.bench import Bench
from benchmarks.machine import busy_cores, describe_machine
from benchmarks.parts.catalogue import PARTS
from benchmarks.parts.merges import Different
from benchmarks.parts.scale import Scale
from benchmarks.process import SystemFailed
from benchmarks.result import Absent, Cell, Conditions, Outcome
from benchmarks.store import CellKey, Store
from benchmarks.systems.catalogue import SYSTEMS
from tests.provision.cache import Unavailable

CROWDED_CORES = 0.3  # if other processes use more, the figures are marked


def choose_cells(parts: Sequence[str], systems: Sequence[str]) -> list[CellKey]:
    """Select parts and systems by name, or all; a named system joins every part that it can run."""
    chosen: list[CellKey] = []
    for name in parts or PARTS:
        default_systems = PARTS[name].systems
        comparable = len(default_systems) > 1
        candidates = [system for system in SYSTEMS if system in systems] if systems else default_systems
        chosen += [(name, system) for system in candidates if comparable or system in default_systems]
    return chosen


def run_cells(cells: Iterable[CellKey], scale: Scale, bench: Bench, store: Store) -> list[Cell]:
    """Measure and store the cells. A failed cell is stored with its reason, and the next one follows."""
    done: list[Cell] = []
    for part, system in cells:
        cell = _measure(part, system, scale, bench)
        store.save(cell)
        done.append(cell)
        summary = f"{part}, {system}: {cell.seconds:.0f} s"
        if isinstance(cell.outcome, Absent):
            bench.progress.cell_done(f"{summary}, left out: {cell.outcome.reason}", "red")
        else:
            bench.progress.cell_done(summary, "yellow" if cell.conditions.crowded else "green")
    return done


def _measure(part: str, system: str, scale: Scale, bench: Bench) -> Cell:
    busy, load = busy_cores(scale.sample_seconds), os.getloadavg()[0]
    began_at, began = datetime.now(UTC), time.monotonic()
    bench.versions = {}
    outcome = _try(part, system, scale, bench)
    return Cell(
        part=part,
        system=system,
        began_at=began_at.isoformat(timespec="minutes"),
        seconds=time.monotonic() - began,
        machine=describe_machine(bench.versions),
        conditions=Conditions(
            spark_cores=bench.limits.cores,
            driver_memory=bench.limits.driver_memory,
            load=load,
            busy_cores=busy,
            crowded=(load if busy is None else busy) > CROWDED_CORES,
        ),
        outcome=outcome,
    )


def _try(part: str, system: str, scale: Scale, bench: Bench) -> Outcome:
    try:
        SYSTEMS[system].prepare()
        return PARTS[part].measure(system, scale, bench)
    except Different as error:
        return Absent(reason=_first_line(error), wrong=True)
    except (SystemFailed, Unavailable) as error:
        bench.progress.print_message(str(error))
        return Absent(reason=_first_line(error))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:300]
