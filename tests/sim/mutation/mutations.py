"""Mutations of a file's bytes. A mutation takes bytes and dice, and returns new bytes and a description."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.sim.mutation.anatomy import PUFFIN_TRAILER, Span, puffin_footer, uncovered

_EXTREMES = (0, 1, -1, 1 << 31, (1 << 31) - 1, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, -(1 << 63), 1 << 62)
_NUMBER = re.compile(rb"-?\d+")


@dataclass(frozen=True)
class Original:
    """A file, and other files of its class that may replace it."""

    content: bytes
    others: Sequence[bytes] = ()

    def __len__(self) -> int:
        return len(self.content)

    def offset(self, dice: random.Random) -> int:
        """Return a random offset, often one that no checksum covers."""
        spans: list[Span] = uncovered(self.content)
        start, end = dice.choice([(0, len(self)), spans[-1], dice.choice(spans)])
        return dice.randrange(start, end)


Mutation = Callable[[Original, random.Random], tuple[bytes | None, str]]
"""None: the file is removed."""


def flip(original: Original, dice: random.Random) -> tuple[bytes, str]:
    """Flip one bit or a few."""
    damaged = bytearray(original.content)
    offsets = [original.offset(dice) for _ in range(dice.choice([1, 1, 1, 2, 5]))]
    for at in offsets:
        damaged[at] ^= 1 << dice.randrange(8)
    return bytes(damaged), f"a bit flipped at {offsets}"


def overwrite(original: Original, dice: random.Random) -> tuple[bytes, str]:
    """Overwrite a range with zeros, ones or noise."""
    at, length = original.offset(dice), dice.choice([1, 2, 4, 8, 16, 64, 512, len(original)])
    length = min(length, len(original) - at)
    what = dice.choice(["zeros", "ones", "noise"])
    run = {"zeros": bytes(length), "ones": b"\xff" * length, "noise": dice.randbytes(length)}[what]
    return original.content[:at] + run + original.content[at + length :], f"{length} bytes of {what} at {at}"


def cut(original: Original, dice: random.Random) -> tuple[bytes, str]:
    """Truncate the file, at a boundary of its format or anywhere."""
    size = len(original)
    joints = [1, 3, 4, 5, 8, 12, size // 2, size - 1, size - 4, size - 8, size - PUFFIN_TRAILER, size - 20]
    spans = uncovered(original.content)
    joints += [edge for span in (spans[-1], dice.choice(spans)) for edge in span]
    end = dice.choice([*joints, *(dice.randrange(size) for _ in range(8))])
    end = min(max(end, 0), size - 1)
    return original.content[:end], f"cut after {end} of {size} bytes"


def cut_start(original: Original, dice: random.Random) -> tuple[bytes, str]:
    """Remove the beginning of the file."""
    start = dice.choice([1, 4, 8, dice.randrange(1, len(original))])
    return original.content[start:], f"without the first {start} bytes"


def extend(original: Original, dice: random.Random) -> tuple[bytes, str]:
    """Append noise, zeros, the file again, or its last bytes."""
    what = dice.choice(["noise", "zeros", "itself", "its end"])
    more = {
        "noise": dice.randbytes(dice.choice([1, 4, 12, 100])),
        "zeros": bytes(dice.choice([1, 4, 4096])),
        "itself": original.content,
        "its end": original.content[-dice.choice([4, 8, PUFFIN_TRAILER, len(original) // 2]) :],
    }[what]
    return original.content + more, f"longer by {what}"


def splice(original: Original, dice: random.Random) -> tuple[bytes, str]:
    """Copy a range elsewhere, swap it with another, duplicate it, or remove it."""
    size = len(original)
    length = dice.randrange(1, max(2, min(size // 2, dice.choice([8, 64, 1024]))))
    first, second = sorted(dice.randrange(size - length + 1) for _ in range(2))
    what = dice.choice(["copied", "swapped", "doubled", "left out"])
    damaged, content = bytearray(original.content), original.content
    match what:
        case "copied":
            damaged[second : second + length] = content[first : first + length]
        case "swapped" if first + length <= second:
            damaged[first : first + length] = content[second : second + length]
            damaged[second : second + length] = content[first : first + length]
        case "doubled":
            damaged[second:second] = content[first : first + length]
        case _:
            del damaged[first : first + length]
    return bytes(damaged), f"{length} bytes at {first} {what} ({second})"


def write_length(original: Original, dice: random.Random) -> tuple[bytes, str]:
    """Write an extreme number where formats store lengths: after the footer, at the beginning, or anywhere."""
    size = len(original)
    number = dice.choice([*_EXTREMES, size, size - 1, size + 1, size - PUFFIN_TRAILER, dice.getrandbits(32)])
    width, order = dice.choice([(4, "<"), (4, ">"), (8, "<"), (8, ">")])
    mask = (1 << (8 * width)) - 1
    raw = struct.pack(f"{order}{'I' if width == 4 else 'Q'}", number & mask)
    at = dice.choice([size - 8, size - PUFFIN_TRAILER, 4, 8, original.offset(dice)])
    at = min(max(at, 0), max(size - width, 0))
    return (original.content[:at] + raw + original.content[at + width :])[
        :size
    ], f"{number} as {width} bytes at {at}"


def write_varint(original: Original, dice: random.Random) -> tuple[bytes, str]:
    """Write a long varint where Thrift and Avro may have a short one."""
    at, length = original.offset(dice), dice.choice([1, 2, 3, 4, 5, 9])
    raw = b"\xff" * (length - 1) + bytes([dice.choice([0x7F, 0x0F, 0x07, 0x01])])
    kept = at + (0 if dice.random() < 0.3 else length)
    return original.content[:at] + raw + original.content[kept:], f"a number of {length} bytes at {at}"


def write_digits(original: Original, dice: random.Random) -> tuple[bytes, str]:
    """Change a number in a Puffin file's footer and adapt the footer's length; else in any text."""
    puffin = original.content.startswith(b"PFA1")
    if puffin and original.content[4:5] == b"{" and dice.random() < 0.8:
        return _write_digit(original, dice)
    start, end = puffin_footer(original.content) if puffin else (0, len(original))
    found = list(_NUMBER.finditer(original.content, start, end))
    if not found:
        return flip(original, dice)
    match = dice.choice(found)
    number = dice.choice([*_EXTREMES, int(match[0]) + 1, int(match[0]) - 1, 10**30, dice.getrandbits(31)])
    written = original.content[: match.start()] + str(number).encode() + original.content[match.end() :]
    if puffin:
        length = struct.pack("<i", end - start + len(written) - len(original))
        written = written[:-PUFFIN_TRAILER] + length + written[-PUFFIN_TRAILER + 4 :]
    return written, f"{match[0].decode()} became {number} at {match.start()}"


def _write_digit(original: Original, dice: random.Random) -> tuple[bytes, str]:
    """Change a digit in the text of a Puffin file's first blob, without moving other bytes."""
    match = dice.choice(list(_NUMBER.finditer(original.content, 4, puffin_footer(original.content)[0])))
    at, digit = match.end() - 1, dice.randrange(10)
    written = original.content[:at] + str(digit).encode() + original.content[at + 1 :]
    return written, f"the last digit of {match[0].decode()} became {digit} at {at}"


def exchange(original: Original, dice: random.Random) -> tuple[bytes, str]:
    """Replace the file by another valid file of its class."""
    if not original.others:
        return flip(original, dice)
    at = dice.randrange(len(original.others))
    return original.others[at], f"another file of its class, number {at}"


def empty(_original: Original, _dice: random.Random) -> tuple[bytes, str]:
    """Empty the file."""
    return b"", "emptied"


def remove(_original: Original, _dice: random.Random) -> tuple[None, str]:
    """Delete the file."""
    return None, "removed"


MUTATIONS: dict[Mutation, int] = {
    flip: 34,
    overwrite: 12,
    cut: 12,
    cut_start: 2,
    extend: 4,
    splice: 10,
    write_length: 8,
    write_varint: 10,
    write_digits: 8,
    exchange: 4,
    empty: 1,
    remove: 2,
}


def mutate(original: Original, dice: random.Random) -> tuple[bytes | None, str, str]:
    """Return new bytes or None, the name of the mutation, and its description."""
    while True:
        chosen = dice.choices(list(MUTATIONS), list(MUTATIONS.values()))[0]
        damaged, description = chosen(original, dice)
        if damaged != original.content:
            return damaged, chosen.__name__, description
