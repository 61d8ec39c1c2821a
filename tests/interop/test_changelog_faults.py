"""Changes by Iceberg Java to a changelog: merged, skipped, or rejected with a specific error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from icemirror.errors import Kind
from icemirror.result import TableResult
from tests.interop.iceberg_java import IcebergJava
from tests.interop.spark_sql import SparkSql
from tests.lab.lab import Lab, sequence_text

V2_AND_V3 = pytest.mark.parametrize("version", [2, 3])
ROWS = {1: "b", 3: "I3@1", 4: "I4@3"}


@dataclass
class Bench:
    """A mirror, and Spark SQL on its changelog."""

    lab: Lab
    spark: SparkSql

    @property
    def changelog(self) -> str:
        return self.spark.changelog

    def sql(self, text: str) -> None:
        """Run a statement; `{t}` is the changelog."""
        self.spark.session.sql(text.format(t=self.changelog))

    def call(self, procedure: str) -> dict[str, object]:
        return self.spark.call(procedure, self.changelog)

    def commit_event(self, operation: str, key: int, number: int, name: str, branch: str = "") -> None:
        """Write an event with Java."""
        target = f"{self.changelog}.branch_{branch}" if branch else self.changelog
        self.spark.session.sql(
            f"INSERT INTO {target} VALUES ({key}, '{name}', '{operation}', '{sequence_text(number)}')"
        )

    def head(self, *, before: int = 0) -> int:
        """Return the id of the changelog's head, or of the snapshot that many before it."""
        snapshot = self.lab.changelog.refresh().current_snapshot()
        for _ in range(before):
            snapshot = (
                self.lab.changelog.snapshot_by_id(snapshot.parent_snapshot_id or 0) if snapshot else None
            )
        assert snapshot is not None
        return snapshot.snapshot_id

    def operations(self) -> list[str]:
        """Return the operations of the changelog's snapshots, oldest first."""
        snapshots = self.lab.changelog.refresh().snapshots()
        return [snapshot.summary.operation.value for snapshot in snapshots if snapshot.summary]

    def rows(self) -> dict[object, object]:
        """Return the mirror's rows, which Java and PyIceberg read equally."""
        table = self.spark.query(f"SELECT id, name FROM {self.spark.mirror}")
        read = dict(zip(table["id"].to_pylist(), table["name"].to_pylist(), strict=True))
        assert table.num_rows == len(read), "a key has two rows"
        assert read == self.lab.rows()
        return read

    def assert_rejected(self, words: str) -> TableResult:
        """The merge fails with a specific error and changes nothing."""
        before = self.lab.mirror.metadata_location
        result = self.lab.try_merge()
        assert result.error is not None
        assert result.error.kind is Kind.INVALID, result.error
        assert words in result.error.message, result.error
        assert self.lab.mirror.metadata_location == before
        return result


@pytest.fixture
def make_bench(tmp_path: Path, java: IcebergJava) -> Callable[[str], Bench]:
    def make(options: str = "") -> Bench:
        lab = Lab.make(tmp_path, options=options)
        lab.commit_events("I1@1 I2@1 I3@1")
        lab.commit_events("U1@2=b D2@2")
        lab.commit_events("I4@3")
        lab.merge()
        return Bench(lab, SparkSql.on(java, lab))

    return make


MakeBench = Callable[[str], Bench]


def test_compacted_changelog_is_not_merged_again(make_bench: MakeBench) -> None:
    bench = make_bench("")
    bench.call("rewrite_data_files(table => {table}, options => map('rewrite-all', 'true'))")
    assert bench.operations()[-1] == "replace"
    result = bench.lab.merge()
    assert [part.events for part in result.slices] in ([], [0])
    assert result.cursor is not None
    assert result.cursor.source.snapshot_id == bench.head()
    bench.commit_event("UPDATE", 3, 5, "later")
    assert sum(part.events for part in bench.lab.merge().slices) == 1
    assert bench.rows() == {**ROWS, 3: "later"}


def test_pending_events_of_a_compacted_changelog_are_merged_once(make_bench: MakeBench) -> None:
    bench = make_bench("")
    bench.commit_event("INSERT", 5, 4, "five")
    bench.call("rewrite_data_files(table => {table}, options => map('rewrite-all', 'true'))")
    bench.commit_event("UPDATE", 5, 5, "later")
    assert sum(part.events for part in bench.lab.merge().slices) == 2
    assert bench.rows() == {**ROWS, 5: "later"}


@pytest.mark.parametrize("options", ["", "on_expired_cursor: rebuild"])
def test_rolled_back_changelog_blocks_merges_until_it_is_restored(
    make_bench: MakeBench, options: str
) -> None:
    bench = make_bench(options)
    head = bench.head()
    bench.call(f"rollback_to_snapshot({{table}}, {bench.head(before=1)})")
    bench.assert_rejected("was rolled back")
    assert bench.rows() == ROWS
    bench.call(f"set_current_snapshot({{table}}, {head})")
    bench.commit_event("DELETE", 3, 6, "")
    bench.lab.merge()
    assert bench.rows() == {1: "b", 4: "I4@3"}


def test_rolled_back_changelog_with_new_commits_blocks_merges(make_bench: MakeBench) -> None:
    bench = make_bench("on_expired_cursor: rebuild")
    bench.call(f"rollback_to_snapshot({{table}}, {bench.head(before=1)})")
    bench.commit_event("INSERT", 9, 9, "elsewhere")
    bench.assert_rejected("was rolled back")
    assert bench.rows() == ROWS


def test_events_of_a_branch_are_merged_after_main_is_fast_forwarded_to_it(make_bench: MakeBench) -> None:
    bench = make_bench("")
    bench.sql("ALTER TABLE {t} CREATE BRANCH audit")
    bench.commit_event("INSERT", 5, 5, "audited", branch="audit")
    assert bench.lab.merge().outcome == "up-to-date"
    bench.call("fast_forward({table}, 'main', 'audit')")
    bench.lab.merge()
    assert bench.rows() == {**ROWS, 5: "audited"}


def test_main_replaced_by_another_branch_blocks_merges(make_bench: MakeBench) -> None:
    bench = make_bench("on_expired_cursor: rebuild")
    bench.sql(f"ALTER TABLE {{t}} CREATE BRANCH other AS OF VERSION {bench.head(before=2)}")
    bench.commit_event("INSERT", 9, 9, "elsewhere", branch="other")
    bench.call("set_current_snapshot(table => {table}, ref => 'other')")
    bench.assert_rejected("its main branch was moved")
    assert bench.rows() == ROWS


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {t} WHERE id = 1",
        "DELETE FROM {t}",
        "TRUNCATE TABLE {t}",
        "UPDATE {t} SET name = 'x' WHERE id = 1",
        "INSERT OVERWRITE {t} VALUES (1, 'x', 'INSERT', '{number}')",
    ],
)
def test_deleted_or_overwritten_changelog_rows_block_merges(make_bench: MakeBench, statement: str) -> None:
    bench = make_bench("on_expired_cursor: rebuild")
    bench.sql(statement.replace("{number}", sequence_text(9)))
    assert bench.operations()[-1] in ("delete", "overwrite")
    bench.assert_rejected("may only be appended")
    bench.commit_event("INSERT", 9, 9, "after it")
    bench.assert_rejected("may only be appended")
    assert bench.rows() == ROWS


def expire(bench: Bench) -> None:
    bench.call(
        "expire_snapshots(table => {table}, older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
    )


def test_expired_cursor_without_missed_snapshots_is_merged(make_bench: MakeBench) -> None:
    bench = make_bench("")
    bench.commit_event("INSERT", 5, 5, "five")
    expire(bench)
    bench.lab.merge()
    assert bench.rows() == {**ROWS, 5: "five"}


@V2_AND_V3
def test_expired_cursor_blocks_or_rebuilds_by_policy(make_bench: MakeBench, version: int) -> None:
    bench = make_bench(f"format_version: {version}")
    bench.commit_event("INSERT", 5, 5, "five")
    bench.commit_event("DELETE", 3, 6, "")
    expire(bench)
    bench.assert_rejected("Events may be missing")
    assert bench.rows() == ROWS
    bench.lab = bench.lab.reconfigure(f"format_version: {version}\non_expired_cursor: rebuild")
    assert bench.lab.merge().outcome == "rebuilt"
    assert bench.rows() == {1: "b", 4: "I4@3", 5: "five"}


def recreate(bench: Bench, drop_option: str) -> None:
    bench.sql(f"DROP TABLE {{t}} {drop_option}")
    bench.sql(
        "CREATE TABLE {t} (id BIGINT NOT NULL, name STRING, cdc_operation STRING NOT NULL, "
        "sequence_number STRING NOT NULL) USING iceberg"
    )
    bench.sql("ALTER TABLE {t} SET IDENTIFIER FIELDS id")


@pytest.mark.parametrize("drop_option", ["", "PURGE"])
@V2_AND_V3
def test_recreated_changelog_resyncs_the_mirror(
    make_bench: MakeBench, drop_option: str, version: int
) -> None:
    bench = make_bench(f"format_version: {version}")
    recreate(bench, drop_option)
    assert bench.lab.merge().outcome == "rebuilt"
    assert bench.rows() == {}
    bench.commit_event("INSERT", 1, 1, "new")
    bench.commit_event("INSERT", 2, 1, "two")
    assert bench.lab.merge().outcome == "merged"
    assert bench.rows() == {1: "new", 2: "two"}
    recreate(bench, drop_option)
    bench.commit_event("INSERT", 7, 1, "third")
    assert bench.lab.merge().outcome == "rebuilt"
    assert bench.rows() == {7: "third"}
