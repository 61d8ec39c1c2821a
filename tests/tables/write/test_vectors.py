from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import Table

from icemirror.errors import Corrupt
from spark_job.commit.row_delta import RowDelta
from spark_job.iceberg.live_files import LiveFile, live_files, replaced_deletes
from spark_job.index.puffin import write_puffin
from spark_job.pyiceberg_private.manifest_files import enable_v3_metadata
from spark_job.pyiceberg_private.v3_fields import content_span, referenced_data_file
from spark_job.write import deletes, deletion_vectors, write_vectors
from spark_job.write.data_files import write_rows
from spark_job.write.deletes import write_deletes
from tests.lab.lab import local_path
from tests.lab.manifests import list_manifests
from tests.lab.mirrored_world import upgrade_like_java
from tests.lab.region_table import SCHEMA, make_table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """An empty table of format version 3, partitioned by region."""
    table = make_table(tmp_path, partitioned=True)
    upgrade_like_java(table)
    enable_v3_metadata()
    return table


def add_rows(table: Table, ids: Sequence[int], regions: Sequence[int]) -> list[str]:
    rows = pa.table({"id": ids, "region": regions}).cast(schema_to_pyarrow(SCHEMA))
    files = write_rows(table.refresh().io, table.metadata, rows, []).files
    commit(table, files)
    return [file.file_path for file in files]


def commit(table: Table, data: Sequence[DataFile] = ()) -> None:
    snapshot_id = table.metadata.new_snapshot_id()
    RowDelta(table, table.current_snapshot(), snapshot_id, data, (), {}, {"p": "1"}).commit()
    table.refresh()


def read_live_files(table: Table) -> Mapping[str, LiveFile]:
    return live_files(table.refresh().io, table.current_snapshot())


def delete(table: Table, rows_by_path: dict[str, list[int]]) -> list[DataFile]:
    """Commit deletes like a merge does."""
    live = read_live_files(table)
    positions = {path: np.array(rows, np.int64) for path, rows in rows_by_path.items()}
    files = write_deletes(table.io, table.metadata, positions, live, [])
    replaced = replaced_deletes(table.metadata, positions, live)
    head, snapshot_id = table.current_snapshot(), table.metadata.new_snapshot_id()
    RowDelta(table, head, snapshot_id, (), files, {}, {"p": "1"}, replaced).commit()
    table.refresh()
    return files


def ids_of(table: Table) -> list[int]:
    ids: list[int] = table.scan().to_arrow()["id"].to_pylist()
    return sorted(ids)


def entries(table: Table) -> list[tuple[str, int, int]]:
    """Return (status, rows, sequence number) of each delete file of the head."""
    head = table.current_snapshot()
    assert head is not None
    return sorted(
        (entry.status.name, entry.data_file.record_count, entry.sequence_number or 0)
        for manifest in list_manifests(table.io, head.manifest_list)
        if manifest.content is ManifestContent.DELETES
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    )


def summary(table: Table) -> dict[str, str]:
    head = table.current_snapshot()
    assert head is not None
    assert head.summary is not None
    return head.summary.additional_properties


def test_nothing_to_delete_writes_nothing(table: Table) -> None:
    add_rows(table, [1], [7])
    assert write_deletes(table.io, table.metadata, {}, read_live_files(table), []) == []


def test_each_data_file_gets_a_vector_in_one_shared_file(table: Table) -> None:
    first, second = add_rows(table, [1, 2, 3, 4], [7, 7, 8, 8])
    files = delete(table, {first: [0], second: [0, 1]})
    assert len({file.file_path for file in files}) == 1
    assert {file.file_format for file in files} == {FileFormat.PUFFIN}
    assert {file.content for file in files} == {DataFileContent.POSITION_DELETES}
    assert [referenced_data_file(file) for file in files] == [first, second]
    assert [file.record_count for file in files] == [1, 2]
    live = read_live_files(table)
    for file, path in zip(files, (first, second), strict=True):
        assert (file.partition, file.spec_id) == (live[path].partition, live[path].spec_id)
        assert file.file_size_in_bytes == local_path(file.file_path).stat().st_size
    assert ids_of(table) == [2]


def test_footer_describes_the_vectors_as_specified(table: Table) -> None:
    (path,) = add_rows(table, [1, 2, 3], [7, 7, 7])
    (file,) = delete(table, {path: [0, 2]})
    content = local_path(file.file_path).read_bytes()
    (blob,) = json.loads(content[content.index(b'{"blobs"') : content.rindex(b"}") + 1])["blobs"]
    span = content_span(file)
    assert span is not None
    assert blob == {
        "type": "deletion-vector-v1",
        "fields": [2147483645],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": span[0],
        "length": span[1],
        "properties": {"referenced-data-file": path, "cardinality": "2"},
    }


def test_later_vector_replaces_the_earlier_one(table: Table) -> None:
    first, second = add_rows(table, [1, 2, 3, 4, 5, 6], [7, 7, 7, 8, 8, 8])
    delete(table, {first: [0], second: [1]})
    delete(table, {first: [2]})
    assert ids_of(table) == [2, 4, 6]
    assert [(path, file.deleted_rows) for path, file in read_live_files(table).items()] == [
        (first, 2),
        (second, 1),
    ]
    assert entries(table) == [("ADDED", 2, 3), ("DELETED", 1, 2), ("EXISTING", 1, 2)]
    delete(table, {second: [0]})
    assert entries(table) == [("ADDED", 2, 4), ("DELETED", 1, 2), ("EXISTING", 2, 3)]
    assert ids_of(table) == [2, 6]


def test_summary_counts_vectors_like_iceberg_java(table: Table) -> None:
    first, second = add_rows(table, [1, 2, 3, 4], [7, 7, 8, 8])
    vectors_written = delete(table, {first: [0], second: [0]})
    sizes = [span[1] for file in vectors_written if (span := content_span(file))]
    counts = summary(table)
    assert counts["added-dvs"] == counts["added-delete-files"] == "2"
    assert counts["added-files-size"] == str(sum(sizes))
    assert "added-position-delete-files" not in counts
    delete(table, {first: [1]})
    counts = summary(table)
    assert (counts["added-dvs"], counts["removed-dvs"]) == ("1", "1")
    assert (counts["added-delete-files"], counts["removed-delete-files"]) == ("1", "1")
    assert (counts["added-position-deletes"], counts["removed-position-deletes"]) == ("2", "1")
    assert (counts["total-delete-files"], counts["total-position-deletes"]) == ("2", "3")
    assert counts["removed-files-size"] == str(sizes[0])
    assert "removed-position-delete-files" not in counts


@pytest.mark.parametrize("max_files", [64, 0], ids=["separate", "shared"])
def test_first_vector_of_a_file_includes_its_position_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_files: int
) -> None:
    monkeypatch.setattr(deletes, "_MAX_SEPARATE_FILES", max_files)
    table = make_table(tmp_path)
    (first,), (second,) = add_rows(table, [1, 2, 3], [0] * 3), add_rows(table, [4, 5, 6], [0] * 3)
    delete(table, {first: [0], second: [2]})
    delete(table, {first: [1]})
    assert ids_of(table) == [3, 4, 5]
    upgrade_like_java(table)
    delete(table, {first: [2]})
    assert ids_of(table) == [4, 5]
    live = read_live_files(table)
    assert (live[first].deleted_rows, live[second].deleted_rows) == (3, 1)
    assert [file.is_vector for file in live[first].deletes] == [True]
    # A shared delete file stays until all of its data files have vectors.
    deleted_entries = [entry for entry in entries(table) if entry[0] == ManifestEntryStatus.DELETED.name]
    assert len(deleted_entries) == (2 if max_files else 1)
    removed = summary(table)
    assert removed["removed-position-delete-files"] == str(len(deleted_entries))
    assert "removed-dvs" not in removed
    delete(table, {second: [0]})
    assert ids_of(table) == [5]


def test_row_cannot_be_deleted_twice(table: Table) -> None:
    (path,) = add_rows(table, [1, 2, 3], [7, 7, 7])
    delete(table, {path: [1]})
    with pytest.raises(Corrupt, match="some are deleted already"):
        delete(table, {path: [1, 2]})
    with pytest.raises(Corrupt, match="row 3 of a data file with 3 rows is removed"):
        delete(table, {path: [3]})
    assert ids_of(table) == [1, 3]


def test_damaged_vector_stops_the_merge(table: Table) -> None:
    (path,) = add_rows(table, [1, 2, 3], [7, 7, 7])
    (file,) = delete(table, {path: [1]})
    span = content_span(file)
    assert span is not None
    puffin = local_path(file.file_path)
    content = bytearray(puffin.read_bytes())
    content[span[0] + span[1] - 6] ^= 1
    puffin.write_bytes(content)
    before = set(puffin.parent.iterdir())
    with pytest.raises(Corrupt, match="checksum"):
        delete(table, {path: [2]})
    assert set(puffin.parent.iterdir()) == before


def test_vector_too_long_for_its_data_file_is_not_read(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = add_rows(table, [1, 2, 3], [7, 7, 7])
    delete(table, {path: [1]})
    monkeypatch.setattr(deletion_vectors, "max_vector_bytes", lambda rows: rows)
    with pytest.raises(Corrupt, match="at most 3 expected"):
        delete(table, {path: [2]})


def test_file_of_a_failed_write_is_removed(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = add_rows(table, [1, 2, 3], [7, 7, 7])
    original = write_puffin

    def fail(*arguments: object) -> None:
        original(*arguments)  # type: ignore[arg-type]
        raise OSError("no space left")

    monkeypatch.setattr(write_vectors, "write_puffin", fail)
    folder = local_path(path).parents[1]
    before = set(folder.rglob("*"))
    with pytest.raises(OSError, match="no space"):
        delete(table, {path: [1]})
    assert set(folder.rglob("*")) == before


def test_replaced_deletes_must_exist(table: Table) -> None:
    """Otherwise a data file would have two vectors, which readers refuse."""
    (path,) = add_rows(table, [1, 2, 3], [7, 7, 7])
    delete(table, {path: [1]})
    stale = replaced_deletes(table.metadata, [path], read_live_files(table))
    delete(table, {path: [2]})
    head, snapshot_id = table.current_snapshot(), table.metadata.new_snapshot_id()
    with pytest.raises(Corrupt, match="the commit removes 1 files, but the manifests list 0"):
        RowDelta(table, head, snapshot_id, (), (), {}, {"p": "1"}, stale).commit()


def test_data_file_with_two_vectors_is_refused(table: Table) -> None:
    (path,) = add_rows(table, [1, 2, 3], [7, 7, 7])
    delete(table, {path: [1]})
    second = write_deletes(table.io, table.metadata, {path: np.array([2])}, read_live_files(table), [])
    head, snapshot_id = table.current_snapshot(), table.metadata.new_snapshot_id()
    RowDelta(table, head, snapshot_id, (), second, {}, {"p": "1"}).commit()
    with pytest.raises(Corrupt, match="2 deletion vectors"):
        read_live_files(table)


def test_rewritten_delete_manifests_are_merged_with_added_deletes(table: Table) -> None:
    paths = [add_rows(table, list(range(5)), [7] * 5)[0] for _ in range(6)]
    for number, path in enumerate(paths[:5]):
        delete(table, {path: [0], paths[5]: [number]} if number == 4 else {path: [0]})
    assert len(delete_manifests(table)) == 5
    delete(table, {path: [1] for path in paths[:5]})
    (manifest,) = delete_manifests(table)
    assert (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count) == (
        5,
        1,
        5,
    )
    assert len(ids_of(table)) == 5 * 3 + 4


def delete_manifests(table: Table) -> list[ManifestFile]:
    head = table.current_snapshot()
    assert head is not None
    return [
        manifest
        for manifest in list_manifests(table.io, head.manifest_list)
        if manifest.content is ManifestContent.DELETES
    ]
