from __future__ import annotations

import pytest

from spark_job.commit.expire.owned_locations import OwnedLocations, is_below
from tests.unit.spark_job.commit.snapshot_history import metadata_of


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("s3://lake/t/data/a.parquet", "s3://lake/t"),
        ("s3a://lake/t/data/a.parquet", "s3://lake/t/"),
        ("file:/lake/t/a.parquet", "file:///lake/t"),
        ("/lake/t//a.parquet", "file:///lake/t"),
        ("abfs://c@a.dfs.core.windows.net/t/a", "abfss://c@a.dfs.core.windows.net/t"),
        ("s3://lake/x/../t/a.parquet", "s3://lake/x/../t"),
        ("s3://lake/t/d=1..2/..a.parquet", "s3://lake/t"),
    ],
)
def test_paths_below_a_location_are_owned(path: str, location: str) -> None:
    assert is_below(path, location)


@pytest.mark.parametrize(
    "path",
    [
        "s3://lake/t",
        "s3://lake/t2/a.parquet",
        "s3://lake/other/a.parquet",
        "s3://other/t/a.parquet",
        "gs://lake/t/a.parquet",
        "s3://lake/t/../other/a.parquet",
        "s3://lake/t/%2e%2e/other/a.parquet",
        "s3://lake/t/./a.parquet",
        "s3://lake//t/a.parquet",
        "lake/t/a.parquet",
        "/lake/t/a.parquet",
        "",
    ],
)
def test_paths_outside_a_location_are_not_owned(path: str) -> None:
    assert not is_below(path, "s3://lake/t")


def test_files_are_owned_in_table_and_configured_locations() -> None:
    metadata = metadata_of(
        [1], properties={"write.data.path": "s3://data/t/", "write.metadata.path": "s3://lake/../x"}
    )
    owned = OwnedLocations.from_metadata(metadata, "s3://index/u")
    assert owned.has_file(f"{metadata.location}/data/a.parquet")
    assert owned.has_file("s3://data/t/a.parquet")
    assert not owned.has_file("s3://lake/../x/a.avro")
    assert not owned.has_file("s3://index/u/a.puffin")


def test_index_is_owned_in_configured_and_default_location() -> None:
    metadata = metadata_of([1])
    owned = OwnedLocations.from_metadata(metadata, "s3://index/u")
    parent = metadata.location.rpartition("/")[0]
    assert owned.has_index("s3://index/u/1.root.puffin")
    assert owned.has_index(f"{parent}/_icemirror_index/{metadata.table_uuid}/1.root.puffin")
    assert not owned.has_index(f"{parent}/_icemirror_index/another/1.root.puffin")
    assert not owned.has_index(f"{metadata.location}/data/1.root.puffin")
