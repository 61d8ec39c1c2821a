"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def write_table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table whose first so many columns hold words, the others numbers."""
    ruler = "|".join("---" if at < left else "---:" for at in range(len(header)))
    head, *body = (f"| {' | '.join(line)} |" for line in (header, *rows))
    return "\n".join([head, f"|{ruler}|", *body])


def write_section(title: str, *blocks: str) -> str:
    """A heading and what is below it; nothing where there is nothing below it."""
    filled = [block for block in blocks if block]
    return "\n\n".join([f"### {title}", *filled]) if filled else ""
