"""The steps of one shard: collapse, locate, check keys, write rows and a segment."""
