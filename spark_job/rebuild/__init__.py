"""Builds a mirror from scratch in a hidden stage and swaps it in; replays a range of the changelog."""
