"""A changelog, the pipeline that mirrors it, and what other writers do to both: on disk, in one process."""
