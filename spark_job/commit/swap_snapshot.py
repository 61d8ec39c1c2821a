"""Swap: one snapshot that replaces the whole content of a table by that of a stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table.snapshots import Operation, Summary, update_snapshot_summaries

from icemirror.errors import Corrupt, Invalid
from icemirror.telemetry.logs import get_log
from spark_job.commit.row_delta import RowDelta
from spark_job.commit.summary import count_files
from spark_job.iceberg.live_files import LiveDelete, LiveFile, live_files
from spark_job.iceberg.manifests import load_manifests
from spark_job.pyiceberg_private.manifest_files import (
    read_manifest_entries,
    write_added_manifest,
    write_removed_manifest,
)
from spark_job.pyiceberg_private.v3_fields import clear_first_row_id

log = get_log(__name__)


@dataclass(frozen=True)
class Swap(RowDelta):
    """A snapshot that adds all files of the `staged` manifests and removes all files of the head.

    It reads and writes one manifest at a time, however many files there are. Rows get new row ids.
    """

    staged: Sequence[ManifestFile] = ()

    def _write_contents(self) -> tuple[list[ManifestFile], Summary]:
        added = [self._add(manifest) for manifest in self.staged if _has_files(manifest)]
        manifests, removed = self._remove_all()
        return [*added, *manifests], self._swap_summary(removed)

    @property
    def adds_files(self) -> bool:
        """Return True: a swap changes the table's files, even if the stage is empty."""
        return True

    def _add(self, manifest: ManifestFile) -> ManifestFile:
        new_manifest = self._new_manifest(manifest.content, manifest.partition_spec_id)
        return write_added_manifest(new_manifest, list(self._files(manifest)))

    def _files(self, manifest: ManifestFile) -> Iterator[DataFile]:
        for entry in read_manifest_entries(self.table.io, manifest):
            clear_first_row_id(entry.data_file)
            yield entry.data_file

    def _remove_all(self) -> tuple[list[ManifestFile], Sequence[LiveFile]]:
        """Write manifests that list the head's files as deleted, so that expiry finds them; return both.

        If the head's manifests are unreadable this is impossible, and its files become orphans.
        """
        try:
            removed = tuple(live_files(self.table.io, self.head).values())
            existing = load_manifests(self.table.io, self.head) if self.head else ()
            manifests = [
                write_removed_manifest(
                    self._new_manifest(manifest.content, manifest.partition_spec_id), self.table.io, manifest
                )
                for manifest in existing
                if _has_files(manifest)
            ]
        except (Corrupt, Invalid, FileNotFoundError) as error:
            log.warning("replaced files unlisted, clean-orphans will delete them", reason=str(error))
            return [], ()
        return manifests, removed

    def _swap_summary(self, removed: Sequence[LiveFile]) -> Summary:
        added = count_files((file for manifest in self.staged for file in self._files(manifest)), ())
        # Nothing of the head remains, so the totals equal the added counts.
        summary = update_snapshot_summaries(Summary(Operation.OVERWRITE, **added, **self.summary))
        for name, count in count_files((), _distinct_deletes(removed), removed).items():
            summary[name] = count
        return summary


def _has_files(manifest: ManifestFile) -> bool:
    """Return whether a manifest lists live files; some list only deleted ones."""
    return manifest.has_added_files() or manifest.has_existing_files()


def _distinct_deletes(files: Sequence[LiveFile]) -> list[LiveDelete]:
    """Return each delete once, even if it applies to several data files."""
    return list({delete.key: delete for file in files for delete in file.deletes}.values())
