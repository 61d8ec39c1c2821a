"""Examples at the end of a command's help."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """Return an epilog for click that shows each example on its own line; a test parses them."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
