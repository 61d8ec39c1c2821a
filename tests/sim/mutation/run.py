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
from spark_job.index import blocks
from spark_job.index import byte_ranges as ranges
from spark_job.merge import locate
from spark_job.storage import parallel as round_trips
from tests.sim.engine.planting import PlantedMistake
from tests.sim.engine.process import Points, restart, stage
from tests.sim.engine.setting import Key
from tests.sim.mutation.anatomy import avro_values, differs_only_within
from tests.sim.mutation.kinds import KINDS
from tests.sim.mutation.mutations import Original, mutate
from tests.sim.mutation.state import MIRROR, Lake, State, state_of
from tests.sim.mutation.story import Row
from tests.sim.mutation.targets import Class

_WEIGHTS = {
    Class.ROOT: 10,
    Class.SEGMENT: 20,
    Class.VECTORS: 24,
    Class.POSITIONS: 24,
    Class.DATA: 14,
    Class.CHANGELOG: 20,
    Class.HISTORY: 8,
    Class.MANIFEST: 6,
    Class.MANIFEST_LIST: 3,
}
_INDEX = (Class.ROOT, Class.SEGMENT)
_ROWS = (Class.DATA, Class.CHANGELOG, Class.HISTORY)
_AVRO = (Class.MANIFEST, Class.MANIFEST_LIST)


class Wrong(AssertionError):
    """An outcome that a mutated file must not have."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one mutated file."""

    file_class: str
    mutation: str
    ended: str
    story: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """What a seed chooses. `without_index`: the root is deleted, too, so that everything must be read."""

    state: State
    file_class: Class
    path: str
    content: bytes | None
    mutation: str
    said: str
    without_index: bool
    remote: bool

    @property
    def story(self) -> tuple[str, ...]:
        return (
            f"{self.state.kind}; {'object store' if self.remote else 'local disk'}",
            f"{self.file_class} {self.path}: {self.said}{'; no index' if self.without_index else ''}",
        )

    @property
    def says_something_else(self) -> bool:
        """An intact manifest with other values: no check can detect it."""
        original = self.state.files[self.path]
        return (
            self.file_class in _AVRO
            and self.content is not None
            and differs_only_within(original, self.content, avro_values(original))
        )


def choose(seed: int) -> Case:
    """The case of a seed."""
    dice = random.Random(seed)
    kind = dice.choice(KINDS)
    state = state_of(kind)
    classes = [one for one in Class if one in state.targets]
    file_class = dice.choices(classes, [_WEIGHTS[one] for one in classes])[0]
    path = dice.choice(state.targets[file_class])
    others = [state.files[one] for one in state.targets[file_class] if one != path]
    if file_class in _ROWS:
        others = [one for one in others if _count_rows(one) != _count_rows(state.files[path])]
    content, mutation, said = mutate(Original(state.files[path], others), dice)
    without = file_class is Class.HISTORY or (file_class not in _INDEX and dice.random() < 0.25)
    return Case(state, file_class, path, content, mutation, said, without, dice.random() < 0.5)


def _count_rows(content: bytes) -> int:
    """No check distinguishes two data files with equally many rows."""
    return int(pq.read_metadata(pa.BufferReader(content)).num_rows)


def run_seed(seed: int, bug: PlantedMistake | None = None) -> Outcome:
    """Return the outcome; raise `Wrong` for one that must not occur."""
    case = choose(seed)
    try:
        with stage(case.state.kind.setting, Points(), seed), _storage(remote=case.remote):
            ended = _run(case, bug or PlantedMistake(()))
    except Exception as error:
        error.add_note("\n".join(case.story))
        raise
    return Outcome(case.file_class.value, case.mutation, ended, case.story)


@contextmanager
def _storage(*, remote: bool) -> Iterator[None]:
    """Treat paths as those of an object store, or of a local disk."""
    with ExitStack() as stack:
        for module in (locate, blocks, ranges, round_trips) if remote else ():
            stack.enter_context(patch.object(module, "is_remote", lambda _path: True))
        for pool in (ranges.segment_pool, ranges.range_pool, round_trips._pool):
            pool.cache_clear()
            stack.callback(pool.cache_clear)
        yield


def _run(case: Case, bug: PlantedMistake) -> str:
    state = case.state
    lake = Lake(state.kind, state, remote=case.remote)
    mutated = {case.path: case.content}
    if case.without_index:
        mutated[state.targets[Class.ROOT][0]] = None
    _put(lake, mutated)
    before, files = lake.catalog.tables[MIRROR], set(lake.store.files)
    with bug.planted():
        result = lake.merge()
    left = set(lake.store.files) - files
    _put(lake, {path: state.files[path] for path in mutated})
    restart()
    if result.error is not None:
        _judge_refusal(case, result.error)
        if result.slices or lake.catalog.tables[MIRROR] != before:
            raise Wrong(f"something was committed, and then {result.error}")
        if left:
            raise Wrong(f"{len(left)} files are left of an attempt that failed, such as {min(left)}")
        again = lake.merge()
        if again.error is not None:
            raise Wrong(f"not merged although the bytes are back: {again.error}")
        _same(lake.rows(), state.rows)
        return f"refused as {result.error.kind}"
    if case.says_something_else:
        return "merged by another manifest"
    _same(lake.rows(), state.rows)
    lake.tell(*state.afterwards)
    after = lake.merge()
    if after.error is not None:
        raise Wrong(f"the next merge fails: {after.error}")
    _same(lake.rows(), state.rows_afterwards)
    return "merged"


def _put(lake: Lake, files: Mapping[str, bytes | None]) -> None:
    for path, content in files.items():
        if content is None:
            lake.store.files.pop(path, None)
        else:
            lake.store.files[path] = content
    restart()


def _judge_refusal(case: Case, error: ErrorResult) -> None:
    valid = case.says_something_else or (case.file_class in _AVRO and case.mutation == "exchange")
    if error.kind is ErrorKind.INVALID and valid:
        return
    if error.kind is not ErrorKind.CORRUPT:
        raise Wrong(f"refused as {error.kind}: {error.message}")


def _same(found: Mapping[Key, Row], expected: Mapping[Key, Row]) -> None:
    if found != expected:
        wrong = [key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)]
        told = [(key, found.get(key), expected.get(key)) for key in sorted(wrong, key=repr)[:3]]
        raise Wrong(f"{len(wrong)} rows differ, such as (key, mirror, oracle): {told}")
