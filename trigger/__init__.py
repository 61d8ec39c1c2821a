"""The light part: notices that changelogs moved, and launches the job."""
