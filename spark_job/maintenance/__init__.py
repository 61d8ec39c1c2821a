"""Index repair, compaction, expiry and orphan removal."""
