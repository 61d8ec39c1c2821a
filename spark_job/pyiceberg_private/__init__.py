"""Every use of PyIceberg's private interface: imports of private names, private attributes and patches.

PyIceberg is pinned: these parts changed in 0.10, 0.11 and 0.12. What the job relies on is listed in
`tests/tables/pyiceberg_private/test_private_interface.py`, so that an upgrade fails there.
`tests/unit/house/test_private_pyiceberg.py` keeps private names in this package.

| file | why it is needed | upstream (apache/iceberg-python) |
|---|---|---|
| `avro.py` | bounded reads, one block per file, reuse of decoded records | #3952 (fixed after 0.12.0), #3980 |
| `damaged_metadata.py` | an unreadable metadata file is named in the error | #1328 |
| `hive_client.py` | Hive 4, several metastores, a fenced commit | #1222, #3121 |
| `lean_metadata.py` | a commit does not copy and validate the whole history | #2673, #3162, #3784 |
| `manifest_files.py` | manifests of v3, delete manifests, row deltas | #1078, #1551, #3620 |
| `open_catalog.py` | responses with credentials do not appear in errors | none known |
| `refused_updates.py` | updates that PyIceberg refuses are recognized | none known |
| `untrusted_properties.py` | table properties do not choose code or endpoints | #3931 |
| `v3_fields.py` | fields of v3 that 0.12 has no names for | #3690, #3957 |
| `vended_credentials.py` | credentials are renewed before they expire | #3506 |
"""
