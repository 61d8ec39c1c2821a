"""What the trigger reports: status, progress, lag, metrics and log lines of runs."""
