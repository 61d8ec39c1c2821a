"""The embedded trigger as users run it, measured from outside: a lake on the disk, a writer, and somebody who looks."""
