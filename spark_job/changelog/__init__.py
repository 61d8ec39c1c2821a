"""What a changelog's history, files and columns mean, and how its events are read."""
