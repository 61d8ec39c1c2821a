"""Columns by field id: in schemas, in Parquet files, and the projection from one to the other."""
