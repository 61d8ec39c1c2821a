"""One seed: mutate a file of a state, merge, and judge the result."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from icemirror.errors import Kind as ErrorKind
from icemirror.result import ErrorResult
from spark_job.index import blocks, byte_ranges
from spark_job.merge import locate
from spark_job.storage import parallel
from tests.sim.engine.planting import PlantedDefect
from tests.sim.engine.process import CrashPoints, patched_product, restart
from tests.sim.engine.setting import Key
from tests.sim.mutation.anatomy import avro_values, differs_only_within
from tests.sim.mutation.events import Row
from tests.sim.mutation.kinds import KINDS
from tests.sim.mutation.mutations import Original, mutate
from tests.sim.mutation.state import MIRROR, Lake, State, state_of
from tests.sim.mutation.targets import FileClass

_WEIGHTS = {
    FileClass.ROOT: 10,
    FileClass.SEGMENT: 20,
    FileClass.VECTORS: 24,
    FileClass.POSITIONS: 24,
    FileClass.DATA: 14,
    FileClass.CHANGELOG: 20,
    FileClass.HISTORY: 8,
    FileClass.MANIFEST: 6,
    FileClass.MANIFEST_LIST: 3,
}
_INDEX = (FileClass.ROOT, FileClass.SEGMENT)
_ROWS = (FileClass.DATA, FileClass.CHANGELOG, FileClass.HISTORY)
_AVRO = (FileClass.MANIFEST, FileClass.MANIFEST_LIST)


class WrongOutcome(AssertionError):
    """An outcome that a mutated file must not cause."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one mutated file."""

    file_class: str
    mutation: str
    ended: str
    trace: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """The choices of a seed. `without_index`: the root is deleted too, so that the merge reads everything."""

    state: State
    file_class: FileClass
    path: str
    content: bytes | None
    mutation: str
    description: str
    without_index: bool
    remote: bool

    @property
    def trace(self) -> tuple[str, ...]:
        return (
            f"{self.state.kind}; {'object store' if self.remote else 'local disk'}",
            f"{self.file_class} {self.path}: {self.description}{'; no index' if self.without_index else ''}",
        )

    @property
    def has_other_values(self) -> bool:
        """Whether it is an intact manifest with other values, which no check can detect."""
        original = self.state.files[self.path]
        return (
            self.file_class in _AVRO
            and self.content is not None
            and differs_only_within(original, self.content, avro_values(original))
        )


def choose(seed: int) -> Case:
    """Return the case of a seed."""
    dice = random.Random(seed)
    kind = dice.choice(KINDS)
    state = state_of(kind)
    classes = [known for known in FileClass if known in state.targets]
    file_class = dice.choices(classes, [_WEIGHTS[known] for known in classes])[0]
    path = dice.choice(state.targets[file_class])
    others = [state.files[other] for other in state.targets[file_class] if other != path]
    if file_class in _ROWS:
        others = [content for content in others if _count_rows(content) != _count_rows(state.files[path])]
    content, mutation, description = mutate(Original(state.files[path], others), dice)
    without_index = file_class is FileClass.HISTORY or (file_class not in _INDEX and dice.random() < 0.25)
    return Case(state, file_class, path, content, mutation, description, without_index, dice.random() < 0.5)


def _count_rows(content: bytes) -> int:
    """Return the number of rows; no check distinguishes two data files with the same number."""
    return int(pq.read_metadata(pa.BufferReader(content)).num_rows)


def run_seed(seed: int, defect: PlantedDefect | None = None) -> Outcome:
    """Return the outcome; raise `WrongOutcome` for one that must not occur."""
    case = choose(seed)
    try:
        with patched_product(case.state.kind.setting, CrashPoints(), seed), _storage(remote=case.remote):
            ended = _run(case, defect or PlantedDefect(()))
    except Exception as error:
        error.add_note("\n".join(case.trace))
        raise
    return Outcome(case.file_class.value, case.mutation, ended, case.trace)


@contextmanager
def _storage(*, remote: bool) -> Iterator[None]:
    """Treat paths as those of an object store, or of a local disk."""
    with ExitStack() as stack:
        for module in (locate, blocks, byte_ranges, parallel) if remote else ():
            stack.enter_context(patch.object(module, "is_remote", lambda _path: True))
        for pool in (parallel.segment_pool, parallel.range_pool, parallel._pool):
            pool.cache_clear()
            stack.callback(pool.cache_clear)
        yield


def _run(case: Case, defect: PlantedDefect) -> str:
    state = case.state
    lake = Lake(state.kind, state, remote=case.remote)
    mutated = {case.path: case.content}
    if case.without_index:
        mutated[state.targets[FileClass.ROOT][0]] = None
    _write_files(lake, mutated)
    before, files = lake.catalog.tables[MIRROR], set(lake.store.files)
    with defect.planted():
        result = lake.merge()
    left = set(lake.store.files) - files
    _write_files(lake, {path: state.files[path] for path in mutated})
    restart()
    if result.error is not None:
        _judge_refusal(case, result.error)
        if result.slices or lake.catalog.tables[MIRROR] != before:
            raise WrongOutcome(f"committed before the error {result.error}")
        if left:
            raise WrongOutcome(f"{len(left)} files are left by a failed attempt, such as {min(left)}")
        retry = lake.merge()
        if retry.error is not None:
            raise WrongOutcome(f"not merged after the file was restored: {retry.error}")
        _check_rows(lake.rows(), state.rows)
        return f"refused as {result.error.kind}"
    if case.has_other_values:
        return "merged by another manifest"
    _check_rows(lake.rows(), state.rows)
    lake.append(*state.afterwards)
    after = lake.merge()
    if after.error is not None:
        raise WrongOutcome(f"the next merge fails: {after.error}")
    _check_rows(lake.rows(), state.rows_afterwards)
    return "merged"


def _write_files(lake: Lake, files: Mapping[str, bytes | None]) -> None:
    for path, content in files.items():
        if content is None:
            lake.store.files.pop(path, None)
        else:
            lake.store.files[path] = content
    restart()


def _judge_refusal(case: Case, error: ErrorResult) -> None:
    valid = case.has_other_values or (case.file_class in _AVRO and case.mutation == "exchange")
    if error.kind is ErrorKind.INVALID and valid:
        return
    if error.kind is not ErrorKind.CORRUPT:
        raise WrongOutcome(f"refused as {error.kind}: {error.message}")


def _check_rows(found: Mapping[Key, Row], expected: Mapping[Key, Row]) -> None:
    if found != expected:
        wrong = [key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)]
        examples = [(key, found.get(key), expected.get(key)) for key in sorted(wrong, key=repr)[:3]]
        raise WrongOutcome(f"{len(wrong)} rows differ, such as (key, mirror, oracle): {examples}")
