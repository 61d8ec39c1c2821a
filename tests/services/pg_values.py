"""Random values of many types, as PostgreSQL literals."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Mapping

TOASTED = 3000  # bytes; rows of more than 2 kB store their largest values out of line

_TEXTS = (
    "",
    " ",
    "a",
    "ä€😀",
    "tab\there",
    "line\nbreak",
    "back\\slash",
    'quo"te',
    "NULL",
    "it's",
    "{a,b}",
    "0",
)
_NULLS = 0.12


def value(kind: str, rng: random.Random) -> str | None:
    """Return a random value of a type, sometimes NULL."""
    return None if rng.random() < _NULLS else literal(kind, rng)


def literal(kind: str, rng: random.Random) -> str:
    """Return a random value of a type."""
    if kind.endswith("[]"):
        return _array(kind[:-2], rng)
    base, _, digits = kind.partition("(")
    if base == "numeric" and digits:
        precision, scale = (int(digit) for digit in digits[:-1].split(","))
        whole = rng.randrange(10 ** (precision - scale))
        return f"{rng.choice(('', '-'))}{whole}.{rng.randrange(10**scale):0{scale}d}"
    if base in ("character varying", "character"):
        return _text(rng)[: int(digits[:-1]) if digits else None]
    return _LITERALS[base](rng)


def large(kind: str, rng: random.Random) -> str:
    """Return a value that PostgreSQL stores out of line."""
    letters = "".join(rng.choices(string.ascii_letters, k=TOASTED))
    match kind:
        case "bytea":
            return "\\x" + letters.encode().hex()
        case "json" | "jsonb":
            return json.dumps({"large": letters})
        case "text[]":
            return "{" + ",".join([letters, "NULL", letters[:5]]) + "}"
        case "integer[]" | "bigint[]":
            return "{" + ",".join(str(rng.randrange(1 << 30)) for _ in range(TOASTED // 4)) + "}"
        case _:
            return letters


def _array(kind: str, rng: random.Random) -> str:
    elements = [literal(kind, rng) for _ in range(rng.choice((0, 1, 1, 3)))]
    escaped = ['"' + element.replace("\\", "\\\\").replace('"', '\\"') + '"' for element in elements]
    return "{" + ",".join(["NULL" if rng.random() < _NULLS else element for element in escaped]) + "}"


def _text(rng: random.Random) -> str:
    return rng.choice(_TEXTS) + rng.choice(_TEXTS)


def _date(rng: random.Random) -> str:
    year = rng.choice((1, 1581, 1582, 1969, 1970, 2000, 2026, 9999))
    return f"{year:04d}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"


def _time(rng: random.Random) -> str:
    clock = f"{rng.randrange(24):02d}:{rng.randrange(60):02d}:{rng.randrange(60):02d}"
    return clock + rng.choice(("", ".5", ".000001", ".999999", f".{rng.randrange(10**6):06d}"))


def _timestamp(rng: random.Random) -> str:
    return f"{_date(rng)} {_time(rng)}"


def _timestamptz(rng: random.Random) -> str:
    # On the first and last day of the calendar, another time zone may be in a year that Python does not support.
    year = rng.choice((1581, 1969, 1970, 2026))
    zone = rng.choice(("+00", "-08", "+05:30", "+13:45"))
    return f"{year}{_timestamp(rng)[4:]}{zone}"


def _number(*limits: int) -> Callable[[random.Random], str]:
    return lambda rng: str(rng.choice((0, 1, -1, *limits, rng.randrange(1000))))


def _json(rng: random.Random) -> str:
    return json.dumps({_text(rng): [rng.randrange(9), None, _text(rng)]})


_LITERALS: Mapping[str, Callable[[random.Random], str]] = {
    "boolean": lambda rng: rng.choice(("t", "f")),
    "smallint": _number(2**15 - 1, -(2**15)),
    "integer": _number(2**31 - 1, -(2**31)),
    "bigint": _number(2**63 - 1, -(2**63)),
    "real": lambda rng: rng.choice(("0", "-0", "1e-40", "3.4e38", "NaN", "Infinity", str(rng.random()))),
    "double precision": lambda rng: rng.choice(
        ("0", "-0", "5e-324", "1.7e308", "NaN", "-Infinity", str(rng.random()))
    ),
    "numeric": lambda rng: rng.choice(
        ("0", "-0.00", "NaN", "1e30", "123456789012345678901234567890.5", "0." + "0" * 30 + "1", "7.10")
    ),
    "text": _text,
    "date": _date,
    "time without time zone": _time,
    "time with time zone": lambda rng: _time(rng) + "+02",
    "timestamp without time zone": _timestamp,
    "timestamp with time zone": _timestamptz,
    "interval": lambda rng: f"{rng.randrange(99)} mons {rng.randrange(-99, 99)} days {_time(rng)}",
    "uuid": lambda rng: f"{rng.getrandbits(128):032x}",
    "bytea": lambda rng: "\\x" + rng.randbytes(rng.choice((0, 1, 20))).hex(),
    "json": _json,
    "jsonb": _json,
    "inet": lambda rng: f"10.0.{rng.randrange(256)}.1/24",
    "mood": lambda rng: rng.choice(("sad", "ok", "happy: ä")),
}
