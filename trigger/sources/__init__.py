"""What the outside world says about changelogs and runs, one module per source."""
