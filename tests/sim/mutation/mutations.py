"""Mutations of a file's bytes. Pure: a mutation takes bytes and dice, and describes what it did."""

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
    """A file, and others of its class that may replace it."""

    content: bytes
    others: Sequence[bytes] = ()

    def __len__(self) -> int:
        return len(self.content)

    def place(self, dice: random.Random) -> int:
        """Anywhere, or where no checksum covers the bytes."""
        spans: list[Span] = uncovered(self.content)
        start, end = dice.choice([(0, len(self)), spans[-1], dice.choice(spans)])
        return dice.randrange(start, end)


Mutation = Callable[[Original, random.Random], tuple[bytes | None, str]]
"""None: the file is removed."""


def flip(of: Original, dice: random.Random) -> tuple[bytes, str]:
    """One bit, or a few."""
    damaged = bytearray(of.content)
    places = [of.place(dice) for _ in range(dice.choice([1, 1, 1, 2, 5]))]
    for at in places:
        damaged[at] ^= 1 << dice.randrange(8)
    return bytes(damaged), f"a bit flipped at {places}"


def overwrite(of: Original, dice: random.Random) -> tuple[bytes, str]:
    """A run of zeros, ones or noise."""
    at, length = of.place(dice), dice.choice([1, 2, 4, 8, 16, 64, 512, len(of)])
    length = min(length, len(of) - at)
    what = dice.choice(["zeros", "ones", "noise"])
    run = {"zeros": bytes(length), "ones": b"\xff" * length, "noise": dice.randbytes(length)}[what]
    return of.content[:at] + run + of.content[at + length :], f"{length} bytes of {what} at {at}"


def cut(of: Original, dice: random.Random) -> tuple[bytes, str]:
    """Truncate the file, at a boundary of its format or anywhere."""
    size = len(of)
    joints = [1, 3, 4, 5, 8, 12, size // 2, size - 1, size - 4, size - 8, size - PUFFIN_TRAILER, size - 20]
    spans = uncovered(of.content)
    joints += [edge for span in (spans[-1], dice.choice(spans)) for edge in span]
    end = dice.choice([*joints, *(dice.randrange(size) for _ in range(8))])
    end = min(max(end, 0), size - 1)
    return of.content[:end], f"cut after {end} of {size} bytes"


def behead(of: Original, dice: random.Random) -> tuple[bytes, str]:
    """The beginning is missing."""
    start = dice.choice([1, 4, 8, dice.randrange(1, len(of))])
    return of.content[start:], f"without the first {start} bytes"


def extend(of: Original, dice: random.Random) -> tuple[bytes, str]:
    """Append noise, zeros, the file again, or its last bytes."""
    what = dice.choice(["noise", "zeros", "itself", "its end"])
    more = {
        "noise": dice.randbytes(dice.choice([1, 4, 12, 100])),
        "zeros": bytes(dice.choice([1, 4, 4096])),
        "itself": of.content,
        "its end": of.content[-dice.choice([4, 8, PUFFIN_TRAILER, len(of) // 2]) :],
    }[what]
    return of.content + more, f"longer by {what}"


def splice(of: Original, dice: random.Random) -> tuple[bytes, str]:
    """A range is copied elsewhere, swapped with another, duplicated, or removed."""
    size = len(of)
    length = dice.randrange(1, max(2, min(size // 2, dice.choice([8, 64, 1024]))))
    one, two = sorted(dice.randrange(size - length + 1) for _ in range(2))
    what = dice.choice(["copied", "swapped", "doubled", "left out"])
    damaged, content = bytearray(of.content), of.content
    match what:
        case "copied":
            damaged[two : two + length] = content[one : one + length]
        case "swapped" if one + length <= two:
            damaged[one : one + length] = content[two : two + length]
            damaged[two : two + length] = content[one : one + length]
        case "doubled":
            damaged[two:two] = content[one : one + length]
        case _:
            del damaged[one : one + length]
    return bytes(damaged), f"{length} bytes at {one} {what} ({two})"


def write_length(of: Original, dice: random.Random) -> tuple[bytes, str]:
    """An extreme number where formats keep lengths: behind the footer, at the beginning, or anywhere."""
    size = len(of)
    number = dice.choice([*_EXTREMES, size, size - 1, size + 1, size - PUFFIN_TRAILER, dice.getrandbits(32)])
    width, order = dice.choice([(4, "<"), (4, ">"), (8, "<"), (8, ">")])
    mask = (1 << (8 * width)) - 1
    raw = struct.pack(f"{order}{'I' if width == 4 else 'Q'}", number & mask)
    at = dice.choice([size - 8, size - PUFFIN_TRAILER, 4, 8, of.place(dice)])
    at = min(max(at, 0), max(size - width, 0))
    return (of.content[:at] + raw + of.content[at + width :])[:size], f"{number} as {width} bytes at {at}"


def write_varint(of: Original, dice: random.Random) -> tuple[bytes, str]:
    """A long number where Thrift and Avro may have a short one."""
    at, length = of.place(dice), dice.choice([1, 2, 3, 4, 5, 9])
    raw = b"\xff" * (length - 1) + bytes([dice.choice([0x7F, 0x0F, 0x07, 0x01])])
    kept = at + (0 if dice.random() < 0.3 else length)
    return of.content[:at] + raw + of.content[kept:], f"a number of {length} bytes at {at}"


def write_digits(of: Original, dice: random.Random) -> tuple[bytes, str]:
    """Another number in the text of a Puffin file's footer, which is as long as it then says; else in any text."""
    puffin = of.content.startswith(b"PFA1")
    if puffin and of.content[4:5] == b"{" and dice.random() < 0.8:
        return _write_digit(of, dice)
    start, end = puffin_footer(of.content) if puffin else (0, len(of))
    found = list(_NUMBER.finditer(of.content, start, end))
    if not found:
        return flip(of, dice)
    match = dice.choice(found)
    number = dice.choice([*_EXTREMES, int(match[0]) + 1, int(match[0]) - 1, 10**30, dice.getrandbits(31)])
    written = of.content[: match.start()] + str(number).encode() + of.content[match.end() :]
    if puffin:
        length = struct.pack("<i", end - start + len(written) - len(of))
        written = written[:-PUFFIN_TRAILER] + length + written[-PUFFIN_TRAILER + 4 :]
    return written, f"{match[0].decode()} became {number} at {match.start()}"


def _write_digit(of: Original, dice: random.Random) -> tuple[bytes, str]:
    """Another digit in the text of a Puffin file's first blob: all of it stays where it was."""
    match = dice.choice(list(_NUMBER.finditer(of.content, 4, puffin_footer(of.content)[0])))
    at, digit = match.end() - 1, dice.randrange(10)
    written = of.content[:at] + str(digit).encode() + of.content[at + 1 :]
    return written, f"the last digit of {match[0].decode()} became {digit} at {at}"


def exchange(of: Original, dice: random.Random) -> tuple[bytes, str]:
    """Another file of its class, whole and valid."""
    if not of.others:
        return flip(of, dice)
    at = dice.randrange(len(of.others))
    return of.others[at], f"another file of its class, number {at}"


def empty(_of: Original, _dice: random.Random) -> tuple[bytes, str]:
    """Nothing is in it."""
    return b"", "emptied"


def remove(_of: Original, _dice: random.Random) -> tuple[None, str]:
    """Delete the file."""
    return None, "removed"


MUTATIONS: dict[Mutation, int] = {
    flip: 34,
    overwrite: 12,
    cut: 12,
    behead: 2,
    extend: 4,
    splice: 10,
    write_length: 8,
    write_varint: 10,
    write_digits: 8,
    exchange: 4,
    empty: 1,
    remove: 2,
}


def mutate(of: Original, dice: random.Random) -> tuple[bytes | None, str, str]:
    """Other bytes, or None; the name of the mutation and what exactly it did."""
    while True:
        chosen = dice.choices(list(MUTATIONS), list(MUTATIONS.values()))[0]
        damaged, said = chosen(of, dice)
        if damaged != of.content:
            return damaged, chosen.__name__, said
