"""Finding the tables of a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.trigger.fakes import settings
from trigger.sources.hints import LocationHint, NameHint
from trigger.sources.object_location import ObjectLocation
from trigger.sources.refusal import EventRefused, RefusalReason
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


def at(key: str, bucket: str = "lake", store: str = "s3") -> LocationHint:
    return LocationHint(ObjectLocation(store, bucket, key))


def refusal(lookup: TableLookup, hint: LocationHint | NameHint) -> RefusalReason:
    with pytest.raises(EventRefused) as caught:
        lookup.find(hint)
    return caught.value.reason


def test_a_metadata_file_is_of_all_mirrors_of_its_changelog(lookup: TableLookup) -> None:
    assert lookup.find(at("raw/orders/metadata/00002-b.metadata.json")) == {"shop.orders", "copy.orders"}


def test_the_longest_prefix_decides(lookup: TableLookup) -> None:
    assert lookup.find(at("raw/orders/metadata/inner/metadata/2.metadata.json")) == {"shop.inner"}


@pytest.mark.parametrize(
    "key", ["raw/orders/data/2.metadata.json", "raw/orders/2.metadata.json", "2.metadata.json"]
)
def test_file_outside_the_metadata_folder_matches_no_table(lookup: TableLookup, key: str) -> None:
    assert refusal(lookup, at(key)) is RefusalReason.UNREGISTERED


def test_a_name_that_begins_like_a_folder_is_not_in_it(lookup: TableLookup) -> None:
    assert refusal(lookup, at("raw/orders/metadata2/1.metadata.json")) is RefusalReason.UNREGISTERED


def test_a_foreign_bucket_is_refused_whatever_its_keys(lookup: TableLookup) -> None:
    for hint in (
        at("raw/orders/metadata/1.metadata.json", "other"),
        at("raw/orders/metadata/1.metadata.json", store="gs"),
        at("iceberg/v1/trees/main/snapshot/versioned/metadata/1.metadata.json", "nessie"),
    ):
        assert refusal(lookup, hint) is RefusalReason.FOREIGN_BUCKET


def test_a_name_is_the_changelogs(lookup: TableLookup) -> None:
    assert lookup.find(NameHint(("raw", "unborn"))) == {"shop.unborn"}
    assert refusal(lookup, NameHint(("raw", "nothing"))) is RefusalReason.UNREGISTERED


def test_a_mirrors_own_commits_are_no_hint_but_people_may_name_it(lookup: TableLookup) -> None:
    assert refusal(lookup, NameHint(("shop", "orders"))) is RefusalReason.UNREGISTERED
    assert lookup.find(NameHint(("shop", "orders"), may_be_mirror_name=True)) == {"shop.orders"}


def test_a_sender_may_put_its_name_for_the_catalog_before(lookup: TableLookup) -> None:
    assert lookup.find(NameHint(("rest", "raw", "unborn"), may_have_catalog_prefix=True)) == {"shop.unborn"}
    assert refusal(lookup, NameHint(("rest", "raw", "unborn"))) is RefusalReason.UNREGISTERED
