"""What a changelog's files and columns mean, and how its events are read."""
