"""Changes that other engines make to a changelog, made by Iceberg Java: merged, skipped, or a specific error."""

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
    """A mirror, and Spark SQL at its changelog."""

    lab: Lab
    spark: SparkSql

    @property
    def changelog(self) -> str:
        return self.spark.changelog

    def sql(self, text: str) -> None:
        """`{t}` is the changelog."""
        self.spark.session.sql(text.format(t=self.changelog))

    def call(self, procedure: str) -> dict[str, object]:
        return self.spark.call(procedure, self.changelog)

    def commit_event(self, operation: str, key: int, number: int, name: str, branch: str = "") -> None:
        """An event that Java writes."""
        target = f"{self.changelog}.branch_{branch}" if branch else self.changelog
        self.spark.session.sql(
            f"INSERT INTO {target} VALUES ({key}, '{name}', '{operation}', '{sequence_text(number)}')"
        )

    def head(self, *, before: int = 0) -> int:
        """The id of the changelog's head, or of one so many before it."""
        at = self.lab.changelog.refresh().current_snapshot()
        for _ in range(before):
            at = self.lab.changelog.snapshot_by_id(at.parent_snapshot_id or 0) if at else None
        assert at is not None
        return at.snapshot_id

    def operations(self) -> list[str]:
        """Of the changelog's snapshots, the oldest first."""
        snapshots = self.lab.changelog.refresh().snapshots()
        return [one.summary.operation.value for one in snapshots if one.summary]

    def rows(self) -> dict[object, object]:
        """The mirror's rows, as Java and PyIceberg read them."""
        answer = self.spark.ask(f"SELECT id, name FROM {self.spark.mirror}")
        read = dict(zip(answer["id"].to_pylist(), answer["name"].to_pylist(), strict=True))
        assert answer.num_rows == len(read), "a key has two rows"
        assert read == self.lab.rows()
        return read

    def refuses(self, words: str) -> TableResult:
        """The merge stops with a specific error and changes nothing."""
        before = self.lab.mirror.metadata_location
        result = self.lab.try_merge()
        assert result.error is not None
        assert result.error.kind is Kind.INVALID, result.error
        assert words in result.error.message, result.error
        assert self.lab.mirror.metadata_location == before
        return result


@pytest.fixture
def bench(tmp_path: Path, java: IcebergJava) -> Callable[[str], Bench]:
    def make(options: str = "") -> Bench:
        lab = Lab.make(tmp_path, options=options)
        lab.commit_events("I1@1 I2@1 I3@1")
        lab.commit_events("U1@2=b D2@2")
        lab.commit_events("I4@3")
        lab.merge()
        return Bench(lab, SparkSql.on(java, lab))

    return make


Make = Callable[[str], Bench]


def test_a_changelog_that_is_compacted_is_not_merged_again(bench: Make) -> None:
    at = bench("")
    at.call("rewrite_data_files(table => {table}, options => map('rewrite-all', 'true'))")
    assert at.operations()[-1] == "replace"
    before = at.lab.merge()
    assert [part.events for part in before.slices] in ([], [0])
    assert before.cursor is not None
    assert before.cursor.source.snapshot_id == at.head()
    at.commit_event("UPDATE", 3, 5, "later")
    assert sum(part.events for part in at.lab.merge().slices) == 1
    assert at.rows() == {**ROWS, 3: "later"}


def test_what_waits_when_a_changelog_is_compacted_is_merged_once(bench: Make) -> None:
    at = bench("")
    at.commit_event("INSERT", 5, 4, "five")
    at.call("rewrite_data_files(table => {table}, options => map('rewrite-all', 'true'))")
    at.commit_event("UPDATE", 5, 5, "later")
    assert sum(part.events for part in at.lab.merge().slices) == 2
    assert at.rows() == {**ROWS, 5: "later"}


@pytest.mark.parametrize("options", ["", "on_expired_cursor: rebuild"])
def test_a_rolled_back_changelog_stops_merges_until_it_is_restored(bench: Make, options: str) -> None:
    at = bench(options)
    head = at.head()
    at.call(f"rollback_to_snapshot({{table}}, {at.head(before=1)})")
    at.refuses("was rolled back")
    assert at.rows() == ROWS
    at.call(f"set_current_snapshot({{table}}, {head})")
    at.commit_event("DELETE", 3, 6, "")
    at.lab.merge()
    assert at.rows() == {1: "b", 4: "I4@3"}


def test_a_changelog_that_goes_on_after_it_was_rolled_back_stops(bench: Make) -> None:
    at = bench("on_expired_cursor: rebuild")
    at.call(f"rollback_to_snapshot({{table}}, {at.head(before=1)})")
    at.commit_event("INSERT", 9, 9, "elsewhere")
    at.refuses("was rolled back")
    assert at.rows() == ROWS


def test_what_is_written_to_a_branch_counts_when_main_is_fast_forwarded_to_it(bench: Make) -> None:
    at = bench("")
    at.sql("ALTER TABLE {t} CREATE BRANCH audit")
    at.commit_event("INSERT", 5, 5, "audited", branch="audit")
    assert at.lab.merge().outcome == "up-to-date"
    at.call("fast_forward({table}, 'main', 'audit')")
    at.lab.merge()
    assert at.rows() == {**ROWS, 5: "audited"}


def test_a_branch_that_takes_the_place_of_main_stops(bench: Make) -> None:
    at = bench("on_expired_cursor: rebuild")
    at.sql(f"ALTER TABLE {{t}} CREATE BRANCH other AS OF VERSION {at.head(before=2)}")
    at.commit_event("INSERT", 9, 9, "elsewhere", branch="other")
    at.call("set_current_snapshot(table => {table}, ref => 'other')")
    at.refuses("its main branch was moved")
    assert at.rows() == ROWS


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
def test_rows_that_are_deleted_or_overwritten_stop_the_merge(bench: Make, statement: str) -> None:
    at = bench("on_expired_cursor: rebuild")
    at.sql(statement.replace("{number}", sequence_text(9)))
    assert at.operations()[-1] in ("delete", "overwrite")
    at.refuses("may only be appended")
    at.commit_event("INSERT", 9, 9, "after it")
    at.refuses("may only be appended")
    assert at.rows() == ROWS


def expire(at: Bench) -> None:
    at.call(
        "expire_snapshots(table => {table}, older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
    )


def test_a_cursor_that_expired_with_all_of_its_snapshot_merged_is_no_loss(bench: Make) -> None:
    at = bench("")
    at.commit_event("INSERT", 5, 5, "five")
    expire(at)
    at.lab.merge()
    assert at.rows() == {**ROWS, 5: "five"}


@V2_AND_V3
def test_an_expired_cursor_stops_or_is_rebuilt_from_by_policy(bench: Make, version: int) -> None:
    at = bench(f"format_version: {version}")
    at.commit_event("INSERT", 5, 5, "five")
    at.commit_event("DELETE", 3, 6, "")
    expire(at)
    at.refuses("Events may be missing")
    assert at.rows() == ROWS
    at.lab = at.lab.reconfigure(f"format_version: {version}\non_expired_cursor: rebuild")
    assert at.lab.merge().outcome == "rebuilt"
    assert at.rows() == {1: "b", 4: "I4@3", 5: "five"}


def recreate(at: Bench, how: str) -> None:
    at.sql(f"DROP TABLE {{t}} {how}")
    at.sql(
        "CREATE TABLE {t} (id BIGINT NOT NULL, name STRING, cdc_operation STRING NOT NULL, "
        "sequence_number STRING NOT NULL) USING iceberg"
    )
    at.sql("ALTER TABLE {t} SET IDENTIFIER FIELDS id")


@pytest.mark.parametrize("how", ["", "PURGE"])
@V2_AND_V3
def test_a_changelog_that_is_dropped_and_created_again_is_followed(
    bench: Make, how: str, version: int
) -> None:
    at = bench(f"format_version: {version}")
    recreate(at, how)
    assert at.lab.merge().outcome == "rebuilt"
    assert at.rows() == {}
    at.commit_event("INSERT", 1, 1, "anew")
    at.commit_event("INSERT", 2, 1, "two")
    assert at.lab.merge().outcome == "merged"
    assert at.rows() == {1: "anew", 2: "two"}
    recreate(at, how)
    at.commit_event("INSERT", 7, 1, "third")
    assert at.lab.merge().outcome == "rebuilt"
    assert at.rows() == {7: "third"}
