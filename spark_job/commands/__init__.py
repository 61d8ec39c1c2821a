"""What the commands of the CLI do with one table, such as merge, verify, explain-key and adopt."""
