"""Iceberg through PyIceberg: tables, snapshots, manifests, commits."""
