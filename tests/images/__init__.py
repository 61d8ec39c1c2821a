"""Builds the images and runs them: `make images`."""
