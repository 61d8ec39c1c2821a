"""A changelog, its mirror, the pipeline between them and other writers: on disk, in one process."""
