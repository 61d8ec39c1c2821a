"""Commands that examine a mirror: verify, explain-key, inspect-index; and adopt."""
