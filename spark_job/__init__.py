"""The heavy part: merges new changelog files into mirrors, on Spark."""
