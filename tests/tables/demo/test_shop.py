from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from icemirror.cli.demo.change_generator import DELETE, ChangeGenerator, Events, ShopTable, format_sequences
from icemirror.cli.demo.oracle.journal import Journal
from icemirror.cli.demo.oracle.verifier import MirrorVerifier
from icemirror.cli.demo.shop import CUSTOMERS, PRODUCTS, SHOP
from icemirror.cli.demo.writer import ChangelogWriter


def _changelog(catalog: SqlCatalog, shop_table: ShopTable, journal: Journal) -> ChangelogWriter:
    identifier = ("shop", f"{shop_table.subject.name}_changelog")
    return ChangelogWriter.open(catalog, identifier, shop_table.subject, shop_table.schema, journal)


def test_sequences_have_the_format_of_supabase_etl() -> None:
    lsn, ordinal = np.array([0x16B374D848, 2**64 - 1], np.uint64), np.array([0, 10], np.uint64)
    assert format_sequences(lsn, ordinal) == [
        "00000016b374d848/0000000000000000",
        "ffffffffffffffff/000000000000000a",
    ]


@pytest.mark.parametrize("shop_table", SHOP, ids=lambda shop_table: shop_table.subject.name)
def test_changelog_has_the_layout_of_supabase_etl(catalog: SqlCatalog, shop_table: ShopTable) -> None:
    changelog = _changelog(catalog, shop_table, Journal.open(None))
    for events in ChangeGenerator(1, 1_000, 100).initial_copy(2):
        changelog.commit([shop_table.to_arrow(events)])
    table = changelog.table
    assert table.format_version == 2
    assert table.spec().is_unpartitioned()
    assert table.schema().column_names[-2:] == ["cdc_operation", "sequence_number"]
    assert table.schema() == shop_table.schema
    assert [str(snapshot.summary.operation.value) for snapshot in table.snapshots() if snapshot.summary] == [
        "append",
        "append",
    ]
    rows = table.scan().to_arrow()
    assert rows.num_rows == 1_000
    assert set(rows.column("sequence_number").to_pylist()) == {"0000000000000000/0000000000000000"}
    assert set(rows.column("cdc_operation").to_pylist()) == {"INSERT"}


@pytest.mark.parametrize("shop_table", SHOP, ids=lambda shop_table: shop_table.subject.name)
def test_expected_keys_are_the_live_keys_of_the_traffic(catalog: SqlCatalog, shop_table: ShopTable) -> None:
    journal = Journal.open(None)
    changelog = _changelog(catalog, shop_table, journal)
    generator = ChangeGenerator(7, 2_000, 300)
    for events in generator.initial_copy(2):
        changelog.commit([shop_table.to_arrow(events)])
    for _ in range(8):
        changelog.commit([shop_table.to_arrow(generator.next_flush())])
    # Events that are still held back are late and stale.
    expected = MirrorVerifier(journal).expected(
        shop_table.subject, journal.position_after(shop_table.subject, None)
    )
    assert len(expected) == len(generator.live_keys)


def test_products_contain_all_special_values() -> None:
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


def test_traffic_is_deterministic_and_has_late_duplicate_and_returning_events() -> None:
    generator, same_seed = ChangeGenerator(3, 5_000, 500), ChangeGenerator(3, 5_000, 500)
    late = duplicates = returned = 0
    delivered: set[tuple[int, int]] = set()
    deleted: set[int] = set()
    newest = 0
    for _ in range(10):
        flush = generator.next_flush()
        repeated_flush = same_seed.next_flush()
        assert np.array_equal(flush.key, repeated_flush.key)
        assert np.array_equal(flush.lsn, repeated_flush.lsn)
        for key, operation, lsn, ordinal in zip(
            flush.key.tolist(),
            flush.operation.tolist(),
            flush.lsn.tolist(),
            flush.ordinal.tolist(),
            strict=True,
        ):
            if (lsn, ordinal) in delivered:
                duplicates += 1
            elif lsn < newest:
                late += 1
            if operation == DELETE:
                deleted.add(key)
            elif key in deleted:
                returned += 1
            delivered.add((lsn, ordinal))
        newest = max(newest, int(flush.lsn.max()))
    assert min(late, duplicates, returned) > 20


def test_commit_that_did_not_land_is_removed_from_the_journal(catalog: SqlCatalog, tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal.db")
    changelog = _changelog(catalog, CUSTOMERS, journal)
    (copy,) = ChangeGenerator(1, 10, 1).initial_copy(1)
    landed = changelog.commit([CUSTOMERS.to_arrow(copy)])
    journal.record(CUSTOMERS.subject, 4711, [("nowhere.parquet", CUSTOMERS.to_arrow(copy))])
    journal.close()

    reopened = Journal.open(tmp_path / "journal.db")
    _changelog(catalog, CUSTOMERS, reopened)
    assert reopened.commits(CUSTOMERS.subject) == [landed]
    assert len(reopened.files(CUSTOMERS.subject, reopened.position_after(CUSTOMERS.subject, None))) == 1
    reopened.close()
