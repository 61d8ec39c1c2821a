"""The embedded trigger as users run it, measured from outside: a lake on disk, a writer and a reader."""
