"""Keeps the key index whole, and up with what other writers do."""
