"""Columns by field id: in schemas, in Parquet files, and from the ones to the others."""
