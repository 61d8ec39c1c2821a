"""Keeps manifests few: which small ones of a kind a commit merges, and into how many. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.manifest import ManifestFile


def choose_due(manifests: Sequence[ManifestFile], least: int) -> set[ManifestFile]:
    """Which of these small manifests to merge, once there are `least` of them: at least half, the smallest first.

    One that is larger than all smaller ones together waits, so that an entry is written anew a few times only, however
    many commits there are.
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


def bundle(manifests: Sequence[ManifestFile], most: int) -> list[list[ManifestFile]]:
    """Neighbours that have at most so many entries together; a larger one is alone."""
    bundles: list[list[ManifestFile]] = []
    room = 0
    for manifest in manifests:
        room -= live_entries(manifest)
        if room < 0:
            bundles.append([])
            room = most - live_entries(manifest)
        bundles[-1].append(manifest)
    return bundles


def live_entries(manifest: ManifestFile) -> int:
    """How many files of the table a manifest names."""
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
