"""The light part: notices that changelogs moved, and launches jobs."""
