"""Counts and messages as users read them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 event`, `2,000 events`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def with_table(table: str, message: str) -> str:
    """Return the message prefixed with the table's name, unless it already starts with it."""
    return message if message.startswith(f"{table}: ") else f"{table}: {message}"
