"""Commit one snapshot with rows, deletes, index and cursor.

commit_slice.commit_slice            the slice of a merge: checks its shards, writes deletes
 └ commit_snapshot.commit_and_expire     also used by compaction: expires snapshots in the same commit
    └ commit_snapshot.commit_snapshot        also used by swaps and adoptions: writes the root
       └ row_delta.RowDelta.commit               writes manifests and calls the catalog
"""
