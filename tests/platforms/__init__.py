"""Fakes of a Hive Metastore and of the platforms that run jobs, with the run states and errors of the real ones."""
