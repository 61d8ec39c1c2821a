"""Whose table a hint is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.trigger.fakes import settings
from trigger.directory import Directory
from trigger.sources.hints import LocationHint, NameHint
from trigger.sources.place import Place
from trigger.sources.refused import Reason, Refused

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
def directory(tmp_path: Path) -> Directory:
    return Directory.of(settings(tmp_path, TABLES).tables, HEADS)


def at(key: str, bucket: str = "lake", store: str = "s3") -> LocationHint:
    return LocationHint(Place(store, bucket, key))


def refusal(directory: Directory, hint: LocationHint | NameHint) -> Reason:
    with pytest.raises(Refused) as caught:
        directory.find(hint)
    return caught.value.reason


def test_a_metadata_file_is_of_all_mirrors_of_its_changelog(directory: Directory) -> None:
    assert directory.find(at("raw/orders/metadata/00002-b.metadata.json")) == {"shop.orders", "copy.orders"}


def test_the_longest_prefix_decides(directory: Directory) -> None:
    assert directory.find(at("raw/orders/metadata/inner/metadata/2.metadata.json")) == {"shop.inner"}


@pytest.mark.parametrize(
    "key", ["raw/orders/data/2.metadata.json", "raw/orders/2.metadata.json", "2.metadata.json"]
)
def test_a_file_beside_the_metadata_is_nobodys(directory: Directory, key: str) -> None:
    assert refusal(directory, at(key)) is Reason.UNREGISTERED


def test_a_name_that_begins_like_a_folder_is_not_in_it(directory: Directory) -> None:
    assert refusal(directory, at("raw/orders/metadata2/1.metadata.json")) is Reason.UNREGISTERED


def test_a_foreign_bucket_is_refused_whatever_its_keys(directory: Directory) -> None:
    for hint in (
        at("raw/orders/metadata/1.metadata.json", "other"),
        at("raw/orders/metadata/1.metadata.json", store="gs"),
        at("iceberg/v1/trees/main/snapshot/versioned/metadata/1.metadata.json", "nessie"),
    ):
        assert refusal(directory, hint) is Reason.FOREIGN_BUCKET


def test_a_name_is_the_changelogs(directory: Directory) -> None:
    assert directory.find(NameHint(("raw", "unborn"))) == {"shop.unborn"}
    assert refusal(directory, NameHint(("raw", "nothing"))) is Reason.UNREGISTERED


def test_a_mirrors_own_commits_are_no_hint_but_people_may_name_it(directory: Directory) -> None:
    assert refusal(directory, NameHint(("shop", "orders"))) is Reason.UNREGISTERED
    assert directory.find(NameHint(("shop", "orders"), or_mirror=True)) == {"shop.orders"}


def test_a_sender_may_put_its_name_for_the_catalog_before(directory: Directory) -> None:
    assert directory.find(NameHint(("rest", "raw", "unborn"), qualified=True)) == {"shop.unborn"}
    assert refusal(directory, NameHint(("rest", "raw", "unborn"))) is Reason.UNREGISTERED
