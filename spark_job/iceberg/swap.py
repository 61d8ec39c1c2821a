"""Commit: all that a table holds is replaced by what was built out of sight, as one snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table.snapshots import Operation, Summary, update_snapshot_summaries

from icemirror.errors import Corrupt, Invalid
from icemirror.telemetry.logs import get_log
from spark_job.iceberg.manifests import known_manifests
from spark_job.iceberg.row_delta import RowDelta
from spark_job.iceberg.seams import read_entries, write_added, write_removed
from spark_job.iceberg.summary import count_changes
from spark_job.iceberg.v3_fields import forget_first_row_id
from spark_job.iceberg.view import LiveDelete, LiveFile, live_files

log = get_log(__name__)


@dataclass
class Swap(RowDelta):
    """A snapshot that adds all files of `staged` manifests, and takes all out that the head has.

    One manifest is read and written at a time, however many files there are. Rows are numbered anew.
    """

    staged: Sequence[ManifestFile] = ()

    def _contents(self) -> tuple[list[ManifestFile], Summary]:
        added = [self._take_over(manifest) for manifest in self.staged if _has_files(manifest)]
        taken_out, gone = self._take_out()
        return [*added, *taken_out], self._tell(gone)

    def _take_over(self, manifest: ManifestFile) -> ManifestFile:
        new = self._new_manifest(manifest.content, manifest.partition_spec_id)
        return write_added(new, list(self._files(manifest)))

    def _files(self, manifest: ManifestFile) -> Iterator[DataFile]:
        for entry in read_entries(self.table.io, manifest):
            forget_first_row_id(entry.data_file)
            yield entry.data_file

    def _take_out(self) -> tuple[list[ManifestFile], Sequence[LiveFile]]:
        """Manifests that name the head's files as deleted, so that expiry finds them, and those files.

        Where its manifests cannot be read that is not possible: its files are then orphans.
        """
        try:
            gone = tuple(live_files(self.table.io, self.head).values())
            existing = known_manifests(self.table.io, self.head) if self.head else ()
            taken_out = [
                write_removed(self._new_manifest(one.content, one.partition_spec_id), self.table.io, one)
                for one in existing
                if _has_files(one)
            ]
        except (Corrupt, Invalid, FileNotFoundError) as error:
            log.warning("what the table held cannot be listed; clean-orphans removes it", reason=str(error))
            return [], ()
        return taken_out, gone

    def _tell(self, gone: Sequence[LiveFile]) -> Summary:
        added = count_changes((file for one in self.staged for file in self._files(one)), ())
        # Nothing of what was is left, so the totals are those of what is added.
        summary = update_snapshot_summaries(Summary(Operation.OVERWRITE, **added, **self.summary))
        for name, count in count_changes((), _deletes_of(gone), gone).items():
            summary[name] = count
        return summary


def _has_files(manifest: ManifestFile) -> bool:
    """Some only name what was taken out."""
    return manifest.has_added_files() or manifest.has_existing_files()


def _deletes_of(files: Sequence[LiveFile]) -> list[LiveDelete]:
    """Each delete once, also one of several data files."""
    return list({delete.key: delete for file in files for delete in file.deletes}.values())
