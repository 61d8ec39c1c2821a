"""File access: parallel reads, a cache of immutable files, removal of uncommitted files, storage errors."""
