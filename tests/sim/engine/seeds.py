"""Seeds that found something once: mistakes of the product that were mended, and the planted ones."""

from __future__ import annotations

REGRESSIONS: tuple[int, ...] = (
    2397135175,
    379,  # a row of another writer, moved by a compaction, whose order was lost with the index, and a late delete
    402,  # a merge that changed no row is rolled back, others write, and all before that expires
    1114,  # a swap whose answer was lost expires, and its rebuild goes on
    817,  # rolled back to the last merge, others write beside what others wrote, and that merge expires
    1826,  # a rebuild from a changelog whose only commit has no file
    1870,  # a rebuild's swap is not answered, and its snapshot expires
    5377,  # a tombstone expires while a segment is damaged, then another writer inserts its key
    5630,  # a row that others inserted and deleted, whose order was lost with the index, and a late insert
    4114,  # a segment of a stage is lost
    3869,  # a commit that was on its way lands after what came instead was rolled back
    2868,  # a replay of a changelog that is shown without its snapshots
    2954,  # and without those that are to be replayed
    2262,  # a rebuild is begun anew after an upgrade, and has merged more with its first slice than before
    4247892540,  # put back to a history that was rolled back, others write there, and all before that expires
    182436953,  # two at the same stage of a re-sync
    4248632661,  # rolled back to before an emptying re-sync, compacted by others, and all before that expires
    71581,  # a rebuild goes up to a commit whose snapshot has expired, and was taken to have merged more
    71599,  # and then did not get on
    72481,  # a stale look at another changelog with a truncation, while the mirror follows an empty one
    71932,  # a first merge that has followed a truncation ahead of it is rebuilt
    4266258408,  # a file that a compaction wrote, rejected from under two numbers of commits
)

# The first seed that finds each planted mistake.
FOUND_BY: dict[str, int] = {
    "tombstones dropped in an index merge": 0,
    "oldest wins in an index merge": 0,
    "trimmed range off by one": 0,
    "merged segments put last": 0,
    "index merge keeps ordinals of the segment": 0,
    "ordinals not moved when files are forgotten": 0,
    "deleted rows not caught up with": 1,
    "rows of others have order zero": 1,
    "compacted rows become the newest": 0,
    "files that others removed not noticed": 0,
    "tombstones not rebuilt": 4,
    "rows of others buried by a rebuild": 17,
    "rebuilt entries have order zero": 4,
    "events not merged yet used in a rebuild": 7,
    "damaged segment dropped": 3,
    "rows of others have order zero once all is rebuilt": 26,
    "segment that was merged away at once left behind": 5,
    "fence off": 1,
    "unknown outcome taken for a failure": 0,
    "commit retried without looking": 1,
    "cursor not moved": 0,
    "files discarded after success": 0,
    "files of a lost race left behind": 5,
    "slice merged twice": 0,
    "epoch not raised after a rollback": 0,
    "cursor taken from the property": 0,
    "root of another snapshot accepted": 0,
    "files without rows kept": 0,
    "file with a row left taken out": 0,
    "next number taken for a descent": 5,
    "history accepted that does not reach the cursor": 10,
    "files done ignored": 1,
    "compaction of the changelog merged again": 0,
    "last shard forgotten": 2,
    "stale compared with greaterinstead of not less": 1,
    "late events applied": 0,
    "delete of an absent key leaves no tombstone": 0,
    "ties won by the earlier file": 0,
    "last event of a file wins": 0,
    "orders without the commit": 0,
    "lookup forgets rows, and no count is checked": 0,
    "lookup falls through tombstones": 0,
    "segment knows its least order as greatest": 0,
    "hash of four bits, and no key is checked": 5,
    "position deletes off by one": 0,
    "row that changes partition stays in the old one": 1,
    "vector without the earlier one": 0,
    "earlier vector left beside the new one": 0,
    "indexed position off by one": 0,
    "cursor of the mirror kept by a rebuild": 1000,
    "epoch not raised by a rebuild": 1000,
    "files of a rebuild left behind": 1006,
    "rebuild is swapped in twice": 1028,
    "rebuild keeps the old index": 1000,
    "rebuild leaves the old rows": 1000,
    "rebuild swaps though it is behind": 1000,
    "rebuild swaps without a fence": 1116,
    "rebuild tidies up what it needs": 1000,
    "rebuild trusts a changelog as it was": 1118,
    "replay applies ties": 1000,
    "replay moves the cursor back": 1000,
    "replay takes what waits to be merged": 1000,
    "stage forgets its last slice": 1000,
    "a file forgotten when rows move": 7000,
    "deleted rows moved with the others": 7000,
    "deletes of others go with files that moved": 7132,
    "epoch not raised when rows move": 7000,
    "files of an unknown compaction discarded": 7070,
    "files that moved stay in the index": 7000,
    "moved rows indexed behind the others": 7000,
    "moved rows lose their order": 7000,
    "placeholder overwrites the value": 20001,
    "events of the slice not asked for a value": 20007,
    "value taken from before a delete": 20001,
    "value taken from an event that is late": 20007,
    "old key left after a key change": 20001,
    "sequence compared as text": 20001,
    "tie broken by arrival": 20001,
    "another changelog taken for the old one": 40001,
    "cursor lost between stage and swap": 40001,
    "readers see nothing until it is built": 40001,
    "rebuild restarts for ever": 40001,
    "rows of the old changelog survive": 40001,
    "last row without a key forgotten": 50003,
    "rows without a key that others removed still counted": 50003,
    "bad rows left out": 9000,
    "bad rows numbered without those before": 9000,
    "bad rows of a shard left out": 9000,
    "bad rows rejected twice": 9000,
    "files of unknown rejects discarded": 9000,
    "good rows numbered anew": 9000,
    "rejected and merged": 9000,
    "rejects after the mirror": 9000,
    "rejects taken back when the mirror is overtaken": 9000,
    "rejects without a fence": 9027,
    "delete of an absent key makes no row": 60002,
    "flag not cleared by an insert": 60002,
    "last of two deletes tells the row": 60022,
    "rebuild forgets flagged rows": 60002,
    "row flagged under the key that it went to": 60087,
    "row of the mirror not asked at a soft delete": 60002,
    "update before a soft delete not asked": 60007,
    "values lost at a soft delete": 60002,
    "events before a truncation count": 70006,
    "first truncation of a file taken for its last": 70024,
    "first truncation taken for the last": 70006,
    "rows after a truncation go with it": 70006,
    "swapped before what came with the truncation": 70051,
    "ties with a truncation go with it": 70006,
    "truncation followed without a rebuild": 70006,
    "truncation lost where a rebuild goes on elsewhere": 70159,
    "truncation not kept with the cursor": 70006,
    "truncation passed over": 70006,
    "truncation that was taken back still followed": 90058,
}
