"""Runs parts on systems, cell by cell, and keeps each as soon as it is measured."""

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
from benchmarks.store import Place, Store
from benchmarks.systems.catalogue import SYSTEMS, Unavailable

CROWDED_CORES = 0.3  # more than this used by others: the figures are marked


def choose_cells(parts: Sequence[str], systems: Sequence[str]) -> list[Place]:
    """Select parts and systems by name, or all; a named system joins every part that it can run."""
    chosen: list[Place] = []
    for name in parts or PARTS:
        usual = PARTS[name].systems
        comparable = len(usual) > 1
        wanted = [one for one in SYSTEMS if one in systems] if systems else usual
        chosen += [(name, one) for one in wanted if comparable or one in usual]
    return chosen


def run_cells(cells: Iterable[Place], scale: Scale, bench: Bench, store: Store) -> list[Cell]:
    """Measure and store the cells. A failed cell is stored with its reason, and the next one follows."""
    done: list[Cell] = []
    for part, system in cells:
        cell = _measure(part, system, scale, bench)
        store.save(cell)
        done.append(cell)
        what = f"{part}, {system}: {cell.seconds:.0f} s"
        if isinstance(cell.outcome, Absent):
            bench.progress.cell_done(f"{what}, left out: {cell.outcome.reason}", "red")
        else:
            bench.progress.cell_done(what, "yellow" if cell.conditions.crowded else "green")
    return done


def _measure(part: str, system: str, scale: Scale, bench: Bench) -> Cell:
    busy, load = busy_cores(scale.look_seconds), os.getloadavg()[0]
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
        bench.progress.tell(str(error))
        return Absent(reason=_first_line(error))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:300]
