"""The trigger protocol as one pure step(): no IO, no clock."""
