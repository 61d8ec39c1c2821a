"""Files of mirror, index and changelog mutated one by one: the merge heals them or stops by name, never a wrong row."""
