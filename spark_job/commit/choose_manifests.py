"""Choose the manifests that a commit rewrites, so that manifests stay few. Pure."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set

from pyiceberg.manifest import ManifestContent, ManifestFile

from icemirror.tables.mirror_properties import MIN_MANIFESTS_TO_MERGE, TARGET_MANIFEST_BYTES
from spark_job.iceberg.write_properties import read_number

_MAX_REWRITTEN_DELETES = 64

ManifestKind = tuple[ManifestContent, int]
"""Content and partition spec id: the entries of a manifest share both."""


def choose_rewritten_manifests(
    manifests: Sequence[ManifestFile], changed: Set[str], properties: Mapping[str, str]
) -> dict[ManifestKind, list[list[ManifestFile]]]:
    """Return the groups of manifests that are rewritten as one manifest each, by kind.

    Small manifests are merged once there are many, so that scan planning stays fast. Manifests with removed entries
    (`changed` paths) are always rewritten. Deletes are removed all the time, so their manifests are kept short.
    """
    min_manifests = read_number(properties, MIN_MANIFESTS_TO_MERGE)
    target_bytes = read_number(properties, TARGET_MANIFEST_BYTES)
    kinds: dict[ManifestKind, list[ManifestFile]] = defaultdict(list)
    for manifest in manifests:
        kinds[manifest.content, manifest.partition_spec_id].append(manifest)
    rewritten: dict[ManifestKind, list[list[ManifestFile]]] = {}
    for kind, group in kinds.items():
        max_entries_per_manifest = max_entries(kind[0])
        small = [
            manifest
            for manifest in group
            if manifest.manifest_length < target_bytes and live_entries(manifest) < max_entries_per_manifest
        ]
        chosen = choose_manifests_to_merge(small, min_manifests)
        merged = [manifest for manifest in small if manifest in chosen or manifest.manifest_path in changed]
        rewritten_alone = [
            [manifest] for manifest in group if manifest.manifest_path in changed and manifest not in small
        ]
        rewritten[kind] = [*group_manifests(merged, max_entries_per_manifest), *rewritten_alone]
    return rewritten


def choose_manifests_to_merge(manifests: Sequence[ManifestFile], min_manifests: int) -> set[ManifestFile]:
    """Choose small manifests to merge, once there are `min_manifests`: at least half, the smallest first.

    Skip a manifest larger than all smaller ones together. So each entry is rewritten only a few times.
    """
    if len(manifests) < min_manifests:
        return set()
    chosen: set[ManifestFile] = set()
    entries = 0
    for manifest in sorted(manifests, key=live_entries):
        if live_entries(manifest) > entries and len(chosen) > len(manifests) // 2:
            break
        chosen.add(manifest)
        entries += live_entries(manifest)
    return chosen


def group_manifests(
    manifests: Sequence[ManifestFile], max_entries_per_manifest: int
) -> list[list[ManifestFile]]:
    """Return groups of neighbours with at most `max_entries_per_manifest` entries; a larger manifest is alone."""
    groups: list[list[ManifestFile]] = []
    group_entries = 0
    for manifest in manifests:
        if not groups or group_entries + live_entries(manifest) > max_entries_per_manifest:
            groups.append([])
            group_entries = 0
        groups[-1].append(manifest)
        group_entries += live_entries(manifest)
    return groups


def max_entries(content: ManifestContent) -> int:
    """Return how many entries a rewritten manifest may have."""
    return _MAX_REWRITTEN_DELETES if content is ManifestContent.DELETES else sys.maxsize


def live_entries(manifest: ManifestFile) -> int:
    """Return how many live files a manifest lists."""
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
