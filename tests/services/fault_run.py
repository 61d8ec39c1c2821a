"""One seed with faults: commit, merge, retry as the worker does; then disable the faults, and drain."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from icemirror.errors import BLOCKING_KINDS, IcemirrorError, Kind
from icemirror.step_results import Merged, NothingToMerge
from spark_job.engine.engine import InProcessEngine
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.schedules import Schedule
from tests.services.fault_proxy import Plan
from tests.services.lakes import Lake, mirrored_world

# Few columns: faults do not depend on the values.
COLUMNS = ("text", "amount", "words")
_ATTEMPTS = 3


class WrongErrorKind(AssertionError):
    """A transient fault surfaced as a blocking or an unexpected error."""


class FaultRun(NamedTuple):
    """The world after a seed, and the number of merges, faults and errors by kind."""

    world: MirroredWorld
    surfaced: Counter[str]


def run_faults(folder: Path, lake: Lake, plans: Sequence[Plan], seed: int, commits: int) -> FaultRun:
    """Run one seed with faults, then merge the rest without."""
    keys = ("int", "string", "uuid", "composite")
    schedule = Schedule(seed, keys[seed % len(keys)], COLUMNS, largest_commit=40)
    world = mirrored_world(folder, lake, schedule, InProcessEngine(1 + seed % 2))
    surfaced: Counter[str] = Counter()
    for _ in range(commits):
        world.oracle.commit_next()
        for _ in range(_ATTEMPTS):
            if _advance(world, surfaced, seed):
                break
    for plan in plans:
        plan.disable()
        surfaced.update({f"fault {name}": count for name, count in plan.seen.items()})
    deadline = time.monotonic() + 120
    while not isinstance(world.pipeline.advance(world.table), NothingToMerge):
        assert time.monotonic() < deadline, f"seed {seed}: did not drain"
    return FaultRun(world, surfaced)


def _advance(world: MirroredWorld, surfaced: Counter[str], seed: int) -> bool:
    """Merge up to the head; return False if an error stopped it."""
    try:
        while isinstance(world.pipeline.advance(world.table), Merged):
            surfaced["merged"] += 1
    except IcemirrorError as error:
        if error.kind in BLOCKING_KINDS or error.kind is Kind.UNEXPECTED:
            raise WrongErrorKind(f"seed {seed}: {error.kind}: {error}") from error
        surfaced[error.kind] += 1
        return False
    except Exception as error:
        raise WrongErrorKind(
            f"seed {seed}: {type(error).__module__}.{type(error).__name__}: {error}"
        ) from error
    return True


def assert_mirror_equals_oracle(world: MirroredWorld, seed: int) -> None:
    """The mirror equals the oracle at every snapshot, has each key once, and every file exists and was added once."""
    mirror = world.mirror
    verdicts = world.oracle.verdicts_of_history(mirror)
    assert verdicts
    for snapshot_id, verdict in verdicts.items():
        assert verdict.equal, f"seed {seed}, snapshot {snapshot_id}: {verdict}"
    assert world.oracle.verdict(mirror, at=None).equal, f"seed {seed}"
    added: list[str] = []
    for snapshot in mirror.snapshots():
        for manifest in snapshot.manifests(mirror.io):
            for entry in manifest.fetch_manifest_entry(mirror.io):
                if (
                    entry.snapshot_id == snapshot.snapshot_id
                    and manifest.added_snapshot_id == entry.snapshot_id
                ):
                    added.append(entry.data_file.file_path)
                    assert mirror.io.new_input(entry.data_file.file_path).exists(), (
                        f"seed {seed}: a file is missing"
                    )
    assert len(set(added)) == len(added), f"seed {seed}: a file was added twice"
    _check_unique_keys(world, seed)


def _check_unique_keys(world: MirroredWorld, seed: int) -> None:
    names = [
        world.mirror.schema().find_column_name(field) for field in world.mirror.schema().identifier_field_ids
    ]
    rows = world.mirror.scan(selected_fields=tuple(filter(None, names))).to_arrow()
    with suppress(pa.ArrowNotImplementedError):
        counts = rows.group_by(names, use_threads=False).aggregate([([], "count_all")])
        assert (pc.max(counts["count_all"]).as_py() or 1) == 1, f"seed {seed}: duplicate key"
