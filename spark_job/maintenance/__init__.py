"""What keeps a mirror small: which snapshots go, and the files that then belong to nothing."""
