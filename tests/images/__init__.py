"""Images, really built and run: `make images`."""
