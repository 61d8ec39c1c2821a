"""Keeps the key index whole, few in runs, and up with what other writers do."""
