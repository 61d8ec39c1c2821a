"""The trigger protocol as one pure step, and the stores that keep its rows."""
