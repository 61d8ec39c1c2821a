"""The Spark job: merges changelog files into mirrors."""
