"""A job that the trigger launched, from its request to its end."""
