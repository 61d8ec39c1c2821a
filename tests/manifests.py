"""Reads manifest lists with the product's reader."""

from __future__ import annotations

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile

from spark_job.pyiceberg_private.manifest_files import decode_manifest_list


def list_manifests(io: FileIO, manifest_list: str) -> list[ManifestFile]:
    return decode_manifest_list(io, manifest_list).records
