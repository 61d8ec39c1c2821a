"""Which data files leave the table because none of their rows is left; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from spark_job.iceberg.view import LiveDelete, LiveFile
from spark_job.write.position_deletes import Positions

# The manifest of a file that goes is written anew. A long one waits until one in so many of its files goes.
_PATIENCE = 64


def choose_dead(
    doomed: Mapping[str, Positions], live: Mapping[str, LiveFile], *, adds_rows: bool
) -> dict[str, LiveFile]:
    """The data files that lose their last row, or lost it before, by path.

    None where the commit would add no file: what tells that a later snapshot came after it are the files it added.
    """
    dead = {
        path: file for path, file in live.items() if file.deleted + len(doomed.get(path, ())) == file.rows
    }
    if not dead or (not adds_rows and doomed.keys() <= dead.keys()):
        return {}
    entries = Counter(file.manifest for file in live.values())
    going = Counter(file.manifest for file in dead.values())
    return {
        path: file
        for path, file in dead.items()
        if _PATIENCE * going[file.manifest] >= entries[file.manifest]
    }


def deletes_only_of(dead: Iterable[LiveFile], others: Iterable[LiveFile]) -> list[LiveDelete]:
    """The deletes that are about these files and none of the others."""
    own = {delete.key: delete for file in dead for delete in file.deletes}
    if own:
        for file in others:
            for delete in file.deletes:
                own.pop(delete.key, None)
    return list(own.values())
