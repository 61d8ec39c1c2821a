"""Which manifests a commit rewrites, and into how many: keeps manifests few. Pure."""

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

    Small manifests are merged once there are many, so that planning a read stays flat. Manifests with removed entries
    (`changed` paths) are always rewritten. Deletes are removed all the time, so their manifests are kept short.
    """
    least = read_number(properties, MIN_MANIFESTS_TO_MERGE)
    target_bytes = read_number(properties, TARGET_MANIFEST_BYTES)
    kinds: dict[ManifestKind, list[ManifestFile]] = defaultdict(list)
    for manifest in manifests:
        kinds[manifest.content, manifest.partition_spec_id].append(manifest)
    rewritten: dict[ManifestKind, list[list[ManifestFile]]] = {}
    for kind, group in kinds.items():
        most = max_entries(kind[0])
        small = [each for each in group if each.manifest_length < target_bytes and live_entries(each) < most]
        due = choose_manifests_to_merge(small, least)
        merged = [each for each in small if each in due or each.manifest_path in changed]
        alone = [[each] for each in group if each.manifest_path in changed and each not in small]
        rewritten[kind] = [*group_manifests(merged, most), *alone]
    return rewritten


def choose_manifests_to_merge(manifests: Sequence[ManifestFile], least: int) -> set[ManifestFile]:
    """Choose which of these small manifests to merge, once there are `least`: at least half, the smallest first.

    A manifest that is larger than all smaller ones together waits: an entry is rewritten only a few times, however many
    commits there are.
    """
    if len(manifests) < least:
        return set()
    due: set[ManifestFile] = set()
    entries = 0
    for manifest in sorted(manifests, key=live_entries):
        if live_entries(manifest) > entries and len(due) > len(manifests) // 2:
            break
        due.add(manifest)
        entries += live_entries(manifest)
    return due


def group_manifests(manifests: Sequence[ManifestFile], most: int) -> list[list[ManifestFile]]:
    """Group neighbours with at most `most` entries in total; a larger manifest is alone."""
    groups: list[list[ManifestFile]] = []
    room = 0
    for manifest in manifests:
        room -= live_entries(manifest)
        if room < 0:
            groups.append([])
            room = most - live_entries(manifest)
        groups[-1].append(manifest)
    return groups


def max_entries(content: ManifestContent) -> int:
    """Return how many entries a rewritten manifest may have."""
    return _MAX_REWRITTEN_DELETES if content is ManifestContent.DELETES else sys.maxsize


def live_entries(manifest: ManifestFile) -> int:
    """Return how many live files a manifest lists."""
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
