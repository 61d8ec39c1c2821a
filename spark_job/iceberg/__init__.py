"""Iceberg tables through PyIceberg: catalogs, mirrors, snapshots, manifests and table properties."""
