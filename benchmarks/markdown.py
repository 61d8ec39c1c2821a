"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def write_table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return a table whose first `left` columns are left-aligned; the others contain numbers."""
    ruler = "|".join("---" if column < left else "---:" for column in range(len(header)))
    head, *body = (f"| {' | '.join(line)} |" for line in (header, *rows))
    return "\n".join([head, f"|{ruler}|", *body])


def write_section(title: str, *blocks: str) -> str:
    """Return a heading with these blocks, or an empty string if all blocks are empty."""
    filled = [block for block in blocks if block]
    return "\n\n".join([f"### {title}", *filled]) if filled else ""
