"""Finding the tables of a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.trigger.fakes import settings
from trigger.sources.hints import LocationHint, NameHint
from trigger.sources.object_location import ObjectLocation
from trigger.sources.refusal import Refusal, RefusalReason
from trigger.tables.table_lookup import TableLookup

TABLES = """
tables:
  - {changelog: raw.orders, mirror: shop.orders, primary_keys: [id]}
  - {changelog: raw.orders, mirror: copy.orders, primary_keys: [id]}
  - {changelog: raw.inner, mirror: shop.inner, primary_keys: [id]}
  - {changelog: raw.unborn, mirror: shop.unborn, primary_keys: [id]}
  - {changelog: raw.versioned, mirror: shop.versioned, primary_keys: [id]}
"""
HEADS = {
    "shop.orders": "s3://lake/raw/orders/metadata/00001-a.metadata.json",
    "copy.orders": "s3://lake/raw/orders/metadata/00001-a.metadata.json",
    "shop.inner": "s3a://lake/raw/orders/metadata/inner/metadata/00001-a.metadata.json",
    "shop.versioned": "http://nessie/iceberg/v1/trees/main/snapshot/versioned/metadata/1.metadata.json",
}


@pytest.fixture
def lookup(tmp_path: Path) -> TableLookup:
    return TableLookup.build(settings(tmp_path, TABLES).tables, HEADS)


def location_hint(key: str, bucket: str = "lake", store: str = "s3") -> LocationHint:
    return LocationHint(ObjectLocation(store, bucket, key))


def refusal(lookup: TableLookup, hint: LocationHint | NameHint) -> RefusalReason:
    outcome = lookup.find(hint)
    assert isinstance(outcome, Refusal)
    return outcome.reason


def test_metadata_file_belongs_to_all_mirrors_of_its_changelog(lookup: TableLookup) -> None:
    assert lookup.find(location_hint("raw/orders/metadata/00002-b.metadata.json")) == frozenset(
        {"shop.orders", "copy.orders"}
    )


def test_longest_prefix_wins(lookup: TableLookup) -> None:
    assert lookup.find(location_hint("raw/orders/metadata/inner/metadata/2.metadata.json")) == frozenset(
        {"shop.inner"}
    )


@pytest.mark.parametrize(
    "key", ["raw/orders/data/2.metadata.json", "raw/orders/2.metadata.json", "2.metadata.json"]
)
def test_file_outside_the_metadata_folder_matches_no_table(lookup: TableLookup, key: str) -> None:
    assert refusal(lookup, location_hint(key)) is RefusalReason.UNREGISTERED


def test_folder_with_a_common_prefix_does_not_match(lookup: TableLookup) -> None:
    assert (
        refusal(lookup, location_hint("raw/orders/metadata2/1.metadata.json")) is RefusalReason.UNREGISTERED
    )


def test_unknown_bucket_is_refused(lookup: TableLookup) -> None:
    for hint in (
        location_hint("raw/orders/metadata/1.metadata.json", "other"),
        location_hint("raw/orders/metadata/1.metadata.json", store="gs"),
        location_hint("iceberg/v1/trees/main/snapshot/versioned/metadata/1.metadata.json", "nessie"),
    ):
        assert refusal(lookup, hint) is RefusalReason.FOREIGN_BUCKET


def test_name_is_the_name_of_the_changelog(lookup: TableLookup) -> None:
    assert lookup.find(NameHint(("raw", "unborn"))) == frozenset({"shop.unborn"})
    assert refusal(lookup, NameHint(("raw", "nothing"))) is RefusalReason.UNREGISTERED


def test_mirror_name_is_accepted_only_from_users(lookup: TableLookup) -> None:
    assert refusal(lookup, NameHint(("shop", "orders"))) is RefusalReason.UNREGISTERED
    assert lookup.find(NameHint(("shop", "orders"), may_be_mirror_name=True)) == frozenset({"shop.orders"})


def test_catalog_prefix_is_accepted_if_the_source_may_add_one(lookup: TableLookup) -> None:
    assert lookup.find(NameHint(("rest", "raw", "unborn"), may_have_catalog_prefix=True)) == frozenset(
        {"shop.unborn"}
    )
    assert refusal(lookup, NameHint(("rest", "raw", "unborn"))) is RefusalReason.UNREGISTERED
