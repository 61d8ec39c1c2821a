from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from icemirror.cli.demo.oracle.journal import Journal
from icemirror.cli.demo.oracle.judge import Judge
from icemirror.cli.demo.shop import CUSTOMERS, PRODUCTS, SHOP
from icemirror.cli.demo.traffic import DELETE, Events, Shape, Traffic, format_sequences
from icemirror.cli.demo.writer import ChangelogWriter


def _changelog(catalog: SqlCatalog, shape: Shape, journal: Journal) -> ChangelogWriter:
    identifier = ("shop", f"{shape.subject.name}_changelog")
    return ChangelogWriter.open(catalog, identifier, shape.subject, shape.schema, journal)


def test_sequences_are_written_as_postgres_etl_writes_them() -> None:
    lsn, ordinal = np.array([0x16B374D848, 2**64 - 1], np.uint64), np.array([0, 10], np.uint64)
    assert format_sequences(lsn, ordinal) == [
        "00000016b374d848/0000000000000000",
        "ffffffffffffffff/000000000000000a",
    ]


@pytest.mark.parametrize("shape", SHOP, ids=lambda shape: shape.subject.name)
def test_a_changelog_has_the_writers_layout(catalog: SqlCatalog, shape: Shape) -> None:
    changelog = _changelog(catalog, shape, Journal.open(None))
    for part in Traffic(1, 1_000, 100).initial_copy(2):
        changelog.commit([shape.to_arrow(part)])
    table = changelog.table
    assert table.format_version == 2
    assert table.spec().is_unpartitioned()
    assert table.schema().column_names[-2:] == ["cdc_operation", "sequence_number"]
    assert table.schema() == shape.schema
    assert [str(snapshot.summary.operation.value) for snapshot in table.snapshots() if snapshot.summary] == [
        "append",
        "append",
    ]
    rows = table.scan().to_arrow()
    assert rows.num_rows == 1_000
    assert set(rows.column("sequence_number").to_pylist()) == {"0000000000000000/0000000000000000"}
    assert set(rows.column("cdc_operation").to_pylist()) == {"INSERT"}


@pytest.mark.parametrize("shape", SHOP, ids=lambda shape: shape.subject.name)
def test_the_oracles_find_the_keys_that_the_traffic_left_alive(catalog: SqlCatalog, shape: Shape) -> None:
    journal = Journal.open(None)
    changelog = _changelog(catalog, shape, journal)
    traffic = Traffic(7, 2_000, 300)
    for part in traffic.initial_copy(2):
        changelog.commit([shape.to_arrow(part)])
    for _ in range(8):
        changelog.commit([shape.to_arrow(traffic.next_flush())])
    # What is still held back is older than what arrived: it changes nothing.
    expected = Judge(journal).expected(shape.subject, journal.position_after(shape.subject, None))
    assert len(expected) == len(traffic.live_keys)


def test_values_of_every_difficult_kind_occur() -> None:
    keys = np.arange(2_000)
    rows = PRODUCTS.to_arrow(Events(keys, keys * 0, keys * 0, keys.astype(np.uint64), keys.astype(np.uint64)))
    ratings = rows.column("rating").to_pylist()
    assert None in ratings
    assert any(value is not None and math.isnan(value) for value in ratings)
    assert any(value == 0 and math.copysign(1, value) < 0 for value in ratings if value is not None)
    assert math.inf in ratings
    for name in ("tags", "dimensions"):
        values = rows.column(name).to_pylist()
        assert None in values
        assert [] in values
        assert any(value and None in value for value in values)
    assert len(set(rows.column("product_id").to_pylist())) == 2_000
    assert rows.column("supplier").null_count > 0


def test_traffic_repeats_itself_exactly_and_has_every_trouble() -> None:
    one, other = Traffic(3, 5_000, 500), Traffic(3, 5_000, 500)
    late = repeated = returned = 0
    delivered: set[tuple[int, int]] = set()
    deleted: set[int] = set()
    newest = 0
    for _ in range(10):
        flush = one.next_flush()
        again = other.next_flush()
        assert np.array_equal(flush.key, again.key)
        assert np.array_equal(flush.lsn, again.lsn)
        for key, operation, lsn, ordinal in zip(
            flush.key.tolist(),
            flush.operation.tolist(),
            flush.lsn.tolist(),
            flush.ordinal.tolist(),
            strict=True,
        ):
            if (lsn, ordinal) in delivered:
                repeated += 1
            elif lsn < newest:
                late += 1
            if operation == DELETE:
                deleted.add(key)
            elif key in deleted:
                returned += 1
            delivered.add((lsn, ordinal))
        newest = max(newest, int(flush.lsn.max()))
    assert min(late, repeated, returned) > 20


def test_a_commit_that_never_landed_leaves_the_journal(catalog: SqlCatalog, tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal.db")
    changelog = _changelog(catalog, CUSTOMERS, journal)
    (copy,) = Traffic(1, 10, 1).initial_copy(1)
    landed = changelog.commit([CUSTOMERS.to_arrow(copy)])
    journal.record(CUSTOMERS.subject, 4711, [("nowhere.parquet", CUSTOMERS.to_arrow(copy))])
    journal.close()

    again = Journal.open(tmp_path / "journal.db")
    _changelog(catalog, CUSTOMERS, again)
    assert again.commits(CUSTOMERS.subject) == [landed]
    assert len(again.files(CUSTOMERS.subject, again.position_after(CUSTOMERS.subject, None))) == 1
    again.close()
