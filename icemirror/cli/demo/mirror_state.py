"""What a mirror's own metadata tell: its cursor, live rows and merges."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from icemirror.cli.demo.ledger import MirrorState
from icemirror.cli.demo.oracle.mirror_rows import read_cursor
from icemirror.cli.demo.workspace import NAMESPACE

_RUN_ID = "icemirror.run-id"
_LIVE_ROWS = "icemirror.live-rows"


def read_mirror_state(catalog: Catalog, name: str) -> MirrorState:
    """The newest merge of a mirror; nothing yet where there is none."""
    try:
        mirror = catalog.load_table((NAMESPACE, name))
    except NoSuchTableError:
        return MirrorState()
    merges = [
        snapshot
        for snapshot in sorted(mirror.snapshots(), key=lambda snapshot: snapshot.sequence_number or 0)
        if snapshot.summary and _RUN_ID in snapshot.summary.additional_properties
    ]
    if not merges or merges[-1].summary is None:
        return MirrorState()
    newest = merges[-1]
    return MirrorState(
        cursor=read_cursor(mirror, newest.snapshot_id),
        live_rows=int(merges[-1].summary.additional_properties.get(_LIVE_ROWS, 0)),
        merges=len(merges),
        committed_at=newest.timestamp_ms / 1000,
    )
