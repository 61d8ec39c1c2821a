"""The key index: its on-disk format, lookups, and merges of segments. See docs/reference/key-index.md.

Who reads segments:

    lookup.find_keys              keys of a slice
     ├ segment_cache.read_segment_rows    small segments: all rows, cached
     └ blocks.read_raw_blocks             large segments: only the blocks that may contain a key
    scan.read_segment_entries     a key range with orders, for index merges and the deep check
     └ blocks.read_blocks                 as matrices
"""
