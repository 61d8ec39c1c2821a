"""The HTTP server of the trigger and its status page."""
