"""File access: parallel reads, a cache of immutable files, removal of uncommitted files, storage errors.

Callers wrap access to catalogs and storage in `translate_errors`; it decides with `classify_errors`, which few other
callers need.
"""
