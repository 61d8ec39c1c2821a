"""Manifests that are truncated."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.typedef import Record

from icemirror.errors import Corrupt
from spark_job.pyiceberg_private.manifest_files import (
    read_manifest_entries,
    write_added_manifest,
)
from tests.unit.spark_job.pyiceberg_private.manifest_samples import IO, data_file, new_manifest


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_file_truncated_at_any_byte_is_corrupt(tmp_path: Path, codec: str) -> None:
    """PyIceberg accepts a file that ends between two blocks, and reads beyond the end of others."""
    manifest = write_added_manifest(
        new_manifest(tmp_path, codec, spec=PartitionSpec()), [data_file(1, Record())]
    )
    path = tmp_path / "m.avro"
    content = path.read_bytes()
    header = content.index(b"Obj") + content.index(content[-16:]) + 16
    for length in range(len(content)):
        if length == header:
            continue  # a header without blocks is a valid file without entries
        path.write_bytes(content[:length])
        with pytest.raises(Corrupt, match=r"the Avro file cannot be parsed .*m\.avro"):
            read_manifest_entries(IO, manifest)
