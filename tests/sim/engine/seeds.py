"""Seeds that detected defects of the product, since fixed, and planted defects."""

from __future__ import annotations

REGRESSIONS: tuple[int, ...] = (
    2397135175,
    379,  # a foreign row, moved by a compaction, loses its order with the index; then a late delete
    402,  # a merge that changed no row is rolled back, a foreign write follows, and all before expires
    1114,  # a swap whose response was lost expires, and its rebuild continues
    817,  # rolled back to the last merge, a foreign write follows, and that merge expires
    1826,  # a rebuild from a changelog whose only commit has no file
    1870,  # the response to a swap is lost, and its snapshot expires
    5377,  # a tombstone expires while a segment is damaged, then a foreign write inserts its key
    5630,  # a row inserted and deleted by another writer loses its order with the index; then a late insert
    4114,  # a segment of a stage is lost
    3869,  # a delayed commit succeeds after the commit that replaced it was rolled back
    2868,  # a replay of a stale changelog without its snapshots
    2954,  # a replay of a stale changelog without the snapshots to replay
    2262,  # a rebuild restarts after an upgrade, and its first slice merges more than before
    4247892540,  # set back to a rolled-back history, a foreign write follows, and all before expires
    182436953,  # two workers at the same stage of a resync
    4248632661,  # rolled back to before an emptying resync, compacted by another writer, and all before expires
    71581,  # a rebuild reaches a commit whose snapshot has expired, and seemed to have merged more
    71599,  # the same, and then made no progress
    72481,  # a stale read of another changelog with a truncation, while the mirror follows an empty one
    71932,  # a first merge that followed a truncation ahead is rebuilt
    4266258408,  # a compacted file, rejected under two commit numbers
)

# The first seed that detects each planted defect.
FOUND_BY: dict[str, int] = {
    "tombstones dropped in an index merge": 0,
    "oldest wins in an index merge": 0,
    "trimmed range off by one": 0,
    "merged segments put last": 0,
    "index merge keeps ordinals of the segment": 0,
    "ordinals not moved when files are forgotten": 0,
    "foreign deletes not indexed": 1,
    "foreign rows have order zero": 1,
    "moved rows become the newest": 0,
    "files removed by another writer not noticed": 0,
    "tombstones not rebuilt": 4,
    "foreign rows buried by an index rebuild": 17,
    "rebuilt entries have order zero": 4,
    "waiting events used in an index rebuild": 7,
    "damaged segment dropped": 3,
    "foreign rows have order zero after an index rebuild": 26,
    "segment merged in its own commit left behind": 5,
    "fence off": 1,
    "unknown outcome treated as a failure": 0,
    "commit retried without checking its outcome": 1,
    "cursor not moved": 0,
    "files discarded after success": 0,
    "files of a lost race left behind": 5,
    "slice merged twice": 0,
    "epoch not raised after a rollback": 0,
    "cursor read from the property": 0,
    "root of another snapshot accepted": 0,
    "empty files kept": 0,
    "file with one live row removed": 0,
    "next sequence number taken for a descendant": 5,
    "history accepted that does not reach the cursor": 10,
    "files done ignored": 1,
    "changelog compaction merged again": 0,
    "last shard forgotten": 2,
    "events of equal order treated as stale": 1,
    "late events applied": 0,
    "delete of an absent key writes no tombstone": 0,
    "ties won by the earlier file": 0,
    "last event of a file wins": 0,
    "orders without the commit": 0,
    "lookup misses rows, and counts are not checked": 0,
    "lookup falls through tombstones": 0,
    "segment records its least order as greatest": 0,
    "hash of four bits, and keys are not checked": 5,
    "position deletes off by one": 0,
    "row stays in its old partition": 1,
    "vector without the earlier one": 0,
    "earlier vector kept next to the new one": 0,
    "indexed position off by one": 0,
    "old cursor kept by a rebuild": 1000,
    "epoch not raised by a rebuild": 1000,
    "files of a rebuild left behind": 1006,
    "rebuild is swapped in twice": 1028,
    "rebuild keeps the old index": 1000,
    "rebuild leaves the old rows": 1000,
    "rebuild swaps although it lags": 1000,
    "rebuild swaps without a fence": 1116,
    "rebuild deletes files that it needs": 1000,
    "rebuild trusts a stale changelog": 1118,
    "replay applies ties": 1000,
    "replay moves the cursor back": 1000,
    "replay merges waiting events": 1000,
    "stage forgets its last slice": 1000,
    "file forgotten in a compaction": 7000,
    "deleted rows moved too": 7000,
    "deletes of other files removed in a compaction": 7132,
    "epoch not raised by a compaction": 7000,
    "files of an unknown compaction discarded": 7070,
    "compacted files stay in the index": 7000,
    "moved rows indexed in the oldest run": 7000,
    "moved rows lose their order": 7000,
    "placeholder overwrites the value": 20001,
    "events of the slice not read for a value": 20007,
    "value taken from before a delete": 20001,
    "value taken from a late event": 20007,
    "old key left after a key change": 20001,
    "sequence compared as text": 20001,
    "tie broken by arrival": 20001,
    "recreated changelog taken for the old one": 40001,
    "cursor lost between stage and swap": 40001,
    "readers see an incomplete rebuild": 40001,
    "rebuild restarts forever": 40001,
    "rows of the old changelog survive": 40001,
    "last row without a key forgotten": 50003,
    "removed rows without a key still counted": 50003,
    "bad rows not recorded": 9000,
    "bad rows numbered without those before": 9000,
    "bad rows of a shard not recorded": 9000,
    "bad rows rejected twice": 9000,
    "files of unknown rejects discarded": 9000,
    "good rows renumbered": 9000,
    "rejected and merged": 9000,
    "rejects after the mirror": 9000,
    "rejects deleted after a conflict on the mirror": 9000,
    "rejects without a fence": 9027,
    "delete of an absent key writes no row": 60002,
    "flag not cleared by an insert": 60002,
    "last of two deletes gives the row": 60022,
    "rebuild forgets flagged rows": 60002,
    "row flagged under its new key": 60087,
    "row of the mirror not read at a soft delete": 60002,
    "update before a soft delete not read": 60007,
    "values lost at a soft delete": 60002,
    "events before a truncation count": 70006,
    "first truncation of a file taken for its last": 70024,
    "first truncation taken for the last": 70006,
    "rows after a truncation removed": 70006,
    "swapped before the truncation is merged": 70051,
    "ties with a truncation removed": 70006,
    "truncation followed without a rebuild": 70006,
    "truncation lost when a rebuild is reanchored": 70159,
    "truncation not kept with the cursor": 70006,
    "truncation ignored": 70006,
    "rolled back truncation still followed": 90058,
}
