"""The product's crash points, by the work that reaches them, in the order in which it does."""

from __future__ import annotations

CREATE_POINTS = ("create-mirror", "mirror-created")
COMMIT_POINTS = ("root-written", "commit", "committed")
SLICE_POINTS = (
    "write-data",
    "data-written",
    "segment-written",
    "write-deletes",
    "deletes-written",
    *COMMIT_POINTS,
)
# A table without a key has no index, so its slices write no segment.
APPEND_POINTS = tuple(point for point in SLICE_POINTS if point != "segment-written")
COMPACTION_POINTS = ("write-moved", "moved-written", "moved-indexed")
REBUILD_POINTS = (
    "stage-begun",
    "stage-merged",
    "stage-kept",
    "swap-root-written",
    "swap",
    "swapped",
    "stage-removed",
)
# Points of the merges within a rebuild; `:3` is the third time that a point is reached.
STAGE_MERGE_POINTS = ("data-written", "root-written", "commit", "committed", "write-data:3", "stage-kept:2")
REJECT_POINTS = (
    "create-rejects",
    "rejects-created",
    "write-rejects",
    "rejects-written",
    "commit-rejects",
    "rejects-committed",
)
