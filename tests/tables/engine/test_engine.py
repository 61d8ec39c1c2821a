from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.types import IcebergType, LongType, StringType, UUIDType

from icemirror.errors import IcemirrorError, Invalid, Transient, UnverifiedConflict
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.bad_rows import BadFile, BadRows
from spark_job.commit.retry import RetriesExhausted
from spark_job.engine.engine import InProcessEngine, LazyEngine
from spark_job.engine.key_ranges import cut_by_key, group_files_by_events, shard_bounds
from spark_job.engine.size_policy import SizePolicy
from spark_job.engine.spark_engine import ERRORS_BY_NAME, TaskFailure
from spark_job.engine.work import Result, Work
from spark_job.iceberg.catalogs import ChangelogDropped, ChangelogNotFound
from spark_job.index.location import index_location
from spark_job.maintenance.move_rows import IndexMismatch
from spark_job.merge.shard_result import split_outcomes
from spark_job.pyiceberg_private.damaged_metadata import DamagedMetadata
from spark_job.rebuild.swap_stage import StageDamaged
from tests.lab.lab import Lab, changelog_schema, events, rows_table, sequence_text
from tests.lab.next_work import next_work
from tests.unit.spark_job.merge.samples import change_tuples, make_changes

MAX_KEY = 2**64 - 1


@given(
    st.lists(st.integers(0, MAX_KEY), max_size=30), st.lists(st.integers(0, MAX_KEY), max_size=4).map(sorted)
)
def test_every_event_goes_to_the_shard_of_its_key(keys: list[int], bounds: list[int]) -> None:
    changes = make_changes([(key, "U", at) for at, key in enumerate(keys)])
    shards = cut_by_key(changes, np.array(bounds, np.uint64))
    assert len(shards) == len(bounds) + 1
    for number, shard in enumerate(shards):
        low = bounds[number - 1] if number else 0
        high = bounds[number] if number < len(bounds) else MAX_KEY + 1
        assert change_tuples(shard) == [event for event in change_tuples(changes) if low <= event[0] < high]


def test_hashed_key_space_is_cut_evenly(tmp_path: Path) -> None:
    schema = changelog_schema(("id", StringType()), ("name", StringType()))
    lab = Lab.make(tmp_path, schema)
    cdc = {"cdc_operation": "INSERT", "sequence_number": sequence_text(1)}
    lab.commit()
    lab.merge()
    lab.commit(rows_table(schema, [{"id": "x", "name": "y", **cdc}]))
    assert shard_bounds(next_work(lab), 4).tolist() == [2**62, 2**63, 3 * 2**62]


def test_ordered_key_space_is_cut_by_a_sample(lab: Lab) -> None:
    lab.commit()
    lab.merge()
    lab.commit(*(events(" ".join(f"I{number}@1" for number in range(at, 300, 3))) for at in range(3)))
    bounds = shard_bounds(next_work(lab), 3).tolist()
    assert [bound - 2**63 for bound in bounds] == pytest.approx([100, 200], abs=3)


@pytest.mark.parametrize("kind", [LongType(), UUIDType(), StringType()], ids=str)
def test_files_without_rows_can_be_sharded(tmp_path: Path, kind: IcebergType) -> None:
    """The sample for the bounds may contain only empty files."""
    schema = changelog_schema(("id", kind), ("name", StringType()))
    lab = Lab.make(tmp_path, schema, engine=InProcessEngine(3))
    lab.commit(rows_table(schema, []))
    assert lab.merge().live_rows == 0


@pytest.mark.parametrize("shards", [1, 2, 3, 7])
def test_mirror_does_not_depend_on_the_number_of_shards(tmp_path: Path, shards: int) -> None:
    lab = Lab.make(tmp_path, engine=InProcessEngine(shards))
    lab.commit_events(" ".join(f"I{number}@1" for number in range(40)))
    lab.merge()
    lab.commit_events(
        " ".join(f"U{number}@2=u" for number in range(0, 40, 3)), "D5@3 D6@3 I5@4=back U7@0=late"
    )
    lab.merge()
    expected = {number: f"I{number}@1" for number in range(40)} | dict.fromkeys(range(0, 40, 3), "u")
    expected[5] = "back"
    del expected[6]
    assert lab.rows() == expected


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12), st.integers(1, 6))
def test_file_groups_hold_every_file_once_and_in_order(sizes: list[int], groups: int) -> None:
    class Work:
        files = tuple(ChangelogFile("", 16 * size, size if size % 2 else 0, 0, 0) for size in sizes)

    file_groups = group_files_by_events(Work(), groups)  # type: ignore[arg-type]
    assert [at for group in file_groups for at in group] == list(range(len(sizes)))
    assert len(file_groups) <= groups


def test_lazy_engine_starts_once_on_first_use(lab: Lab) -> None:
    started: list[int] = []

    def start() -> InProcessEngine:
        started.append(1)
        return InProcessEngine()

    engine = LazyEngine(start)
    lab.commit()
    lab.merge()
    lab.commit_events("I1@1")
    assert started == []
    for _ in range(2):
        engine.run(next_work(lab))
    assert started == [1]
    assert engine.start_seconds >= 0


@pytest.mark.parametrize(("from_events", "in_process"), [(0, False), (2, False), (3, True)])
def test_work_below_spark_from_events_runs_in_process(lab: Lab, from_events: int, in_process: bool) -> None:
    started: list[int] = []

    def start() -> InProcessEngine:
        started.append(1)
        return InProcessEngine()

    lab.commit_events("I1@1 I2@2")
    lab.merge()
    lab.commit_events("U1@3 D2@4")
    ((result,), _) = split_outcomes(LazyEngine(start, SizePolicy(from_events)).run(next_work(lab)))
    assert (result.effects.updated, result.effects.deleted) == (1, 1)
    assert (not started) is in_process


def test_few_events_of_many_bytes_run_on_the_engine(lab: Lab) -> None:
    started: list[int] = []

    def start() -> InProcessEngine:
        started.append(1)
        return InProcessEngine()

    lab.commit_events("I1@1 I2@2")
    lab.merge()
    lab.commit_events("U1@3")
    work = next_work(lab)
    policy = SizePolicy(100, in_process_bytes=sum(file.bytes for file in work.files) - 1)
    LazyEngine(start, policy).run(work)
    assert started == [1]


def test_index_location_is_next_to_the_table_or_configured(lab: Lab) -> None:
    metadata = lab.changelog.metadata
    parent = metadata.location.rpartition("/")[0]
    assert index_location(metadata, None) == f"{parent}/_icemirror_index/{metadata.table_uuid}"
    for configured in ("s3://b/idx", "s3://b/idx/"):
        assert index_location(metadata, configured) == f"s3://b/idx/{metadata.table_uuid}"


def test_long_history_runs_on_the_engine(lab: Lab) -> None:
    started: list[int] = []

    def start() -> InProcessEngine:
        started.append(1)
        return InProcessEngine()

    lab.commit_events("I1@1 I2@2")
    lab.merge()
    lab.commit_events("U1@3")
    work = next_work(lab)
    LazyEngine(start, SizePolicy(3)).run(replace(work, history=(replace(work.files[0], events=1),)))
    assert started == []
    LazyEngine(start, SizePolicy(3)).run(replace(work, history=(replace(work.files[0], events=2),)))
    assert started == [1]


@pytest.mark.parametrize(
    ("error", "starts"),
    [(RuntimeError("Answer from Java side is empty"), 2), (Transient("storage failed"), 1)],
)
def test_engine_restarts_after_an_unknown_error(lab: Lab, error: Exception, starts: int) -> None:
    started: list[int] = []

    class FailingEngine(InProcessEngine):
        def run(self, work: Work[Result]) -> list[Result]:
            if len(failures) < 1:
                failures.append(error)
                raise error
            return super().run(work)

    def start() -> InProcessEngine:
        started.append(1)
        return FailingEngine()

    failures: list[Exception] = []
    lab.commit_events("I1@1 I2@2")
    lab.merge()
    lab.commit_events("U1@3")
    engine, work = LazyEngine(start), next_work(lab)
    with pytest.raises(type(error)):
        engine.run(work)
    engine.run(work)
    assert len(started) == starts


@pytest.mark.parametrize("error", [Transient("lost"), RuntimeError("Answer from Java side is empty")])
def test_error_after_an_interrupt_becomes_keyboard_interrupt(
    lab: Lab, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FailingEngine(InProcessEngine):
        def run(self, work: Work[Result]) -> list[Result]:
            raise error

    def start() -> InProcessEngine:
        if interrupted.is_set() and isinstance(error, RuntimeError):
            raise error
        return FailingEngine()

    interrupted = threading.Event()
    monkeypatch.setattr("spark_job.engine.interrupt._received", interrupted)
    lab.commit_events("I1@1")
    lab.merge()
    lab.commit_events("U1@3")
    work = next_work(lab)
    with pytest.raises(type(error)):
        LazyEngine(start).run(work)
    interrupted.set()
    with pytest.raises(KeyboardInterrupt):
        LazyEngine(start).run(work)


def test_every_task_error_is_recreated_on_the_driver() -> None:
    """An error class missing in ERRORS_BY_NAME would be retried forever."""

    def kinds(error: type[IcemirrorError]) -> set[type[IcemirrorError]]:
        return {error}.union(*map(kinds, error.__subclasses__()))

    product = ("icemirror.errors", "spark_job.")
    product_errors = {kind for kind in kinds(IcemirrorError) if kind.__module__.startswith(product)}
    raised_only_by_the_driver = {
        IcemirrorError,
        UnverifiedConflict,
        RetriesExhausted,
        IndexMismatch,
        StageDamaged,
        DamagedMetadata,
        ChangelogNotFound,
        ChangelogDropped,
    }
    recreated_as_invalid = {BadFile, BadRows}
    assert product_errors - raised_only_by_the_driver - recreated_as_invalid == set(ERRORS_BY_NAME.values())
    error = TaskFailure.from_error(BadFile("long values", "a.parquet")).error()
    assert type(error) is Invalid
    assert str(error) == "long values: a.parquet"
