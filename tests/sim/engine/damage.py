"""Damages a file as storage might."""

from __future__ import annotations

import random

from tests.sim.engine.memory_io import MemoryIO


def damage(io: MemoryIO, path: str, dice: random.Random) -> str:
    """Damage a file; return how."""
    content = bytearray(io.files[path])
    how = dice.choice(["removed", "cut", "flipped"])
    match how:
        case "removed":
            del io.files[path]
        case "cut":
            io.files[path] = bytes(content[: dice.randrange(len(content))])
        case _:
            content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
            io.files[path] = bytes(content)
    return how
