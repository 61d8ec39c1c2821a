"""The manifests that a list names, as the product reads them."""

from __future__ import annotations

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile

from spark_job.iceberg.seams import list_manifests_after


def list_manifests(io: FileIO, manifest_list: str) -> list[ManifestFile]:
    return list_manifests_after(io, manifest_list).records
