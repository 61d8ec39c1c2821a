"""Iceberg through PyIceberg: tables, lineage, manifests, commits."""
