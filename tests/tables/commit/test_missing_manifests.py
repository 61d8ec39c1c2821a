"""A missing manifest from which another one is to be written."""

from __future__ import annotations

import pytest
from pyiceberg.manifest import ManifestContent

from spark_job.pyiceberg_private.manifest_files import (
    NewManifest,
    write_merged_manifest,
    write_removed_manifest,
)
from tests.lab.lab import Lab
from tests.lab.manifests import list_manifests


@pytest.mark.parametrize(
    "write", [lambda new, io, manifest: write_merged_manifest(new, io, [manifest]), write_removed_manifest]
)
def test_missing_manifest_is_an_error_and_not_read_as_empty(lab: Lab, write: object) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    table, head = lab.mirror, lab.mirror.current_snapshot()
    assert head is not None
    (manifest,) = list_manifests(table.io, head.manifest_list)
    table.io.delete(manifest.manifest_path)
    output = table.io.new_output(f"{table.location()}/metadata/other.avro")
    new = NewManifest(ManifestContent.DATA, table.spec(), table.schema(), output, 1, "null")
    with pytest.raises(FileNotFoundError, match=manifest.manifest_path.rsplit("/", 1)[-1]):
        write(new, table.io, manifest)  # type: ignore[operator]
