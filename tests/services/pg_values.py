"""Values by chance, as literals of PostgreSQL, for columns of many types."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Mapping

TOASTED = 3000  # bytes; rows of more than 2 kB keep their largest values elsewhere

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


def value(kind: str, chance: random.Random) -> str | None:
    """A value of a column, NULL now and then."""
    return None if chance.random() < _NULLS else literal(kind, chance)


def literal(kind: str, chance: random.Random) -> str:
    """A value of a type."""
    if kind.endswith("[]"):
        return _array(kind[:-2], chance)
    base, _, digits = kind.partition("(")
    if base == "numeric" and digits:
        precision, scale = (int(one) for one in digits[:-1].split(","))
        whole = chance.randrange(10 ** (precision - scale))
        return f"{chance.choice(('', '-'))}{whole}.{chance.randrange(10**scale):0{scale}d}"
    if base in ("character varying", "character"):
        return _text(chance)[: int(digits[:-1]) if digits else None]
    return _LITERALS[base](chance)


def large(kind: str, chance: random.Random) -> str:
    """A value that is kept out of line."""
    letters = "".join(chance.choices(string.ascii_letters, k=TOASTED))
    match kind:
        case "bytea":
            return "\\x" + letters.encode().hex()
        case "json" | "jsonb":
            return json.dumps({"large": letters})
        case "text[]":
            return "{" + ",".join([letters, "NULL", letters[:5]]) + "}"
        case "integer[]" | "bigint[]":
            return "{" + ",".join(str(chance.randrange(1 << 30)) for _ in range(TOASTED // 4)) + "}"
        case _:
            return letters


def _array(kind: str, chance: random.Random) -> str:
    elements = [literal(kind, chance) for _ in range(chance.choice((0, 1, 1, 3)))]
    escaped = ['"' + one.replace("\\", "\\\\").replace('"', '\\"') + '"' for one in elements]
    return "{" + ",".join(["NULL" if chance.random() < _NULLS else one for one in escaped]) + "}"


def _text(chance: random.Random) -> str:
    return chance.choice(_TEXTS) + chance.choice(_TEXTS)


def _date(chance: random.Random) -> str:
    year = chance.choice((1, 1581, 1582, 1969, 1970, 2000, 2026, 9999))
    return f"{year:04d}-{chance.randrange(1, 13):02d}-{chance.randrange(1, 29):02d}"


def _time(chance: random.Random) -> str:
    clock = f"{chance.randrange(24):02d}:{chance.randrange(60):02d}:{chance.randrange(60):02d}"
    return clock + chance.choice(("", ".5", ".000001", ".999999", f".{chance.randrange(10**6):06d}"))


def _timestamp(chance: random.Random) -> str:
    return f"{_date(chance)} {_time(chance)}"


def _timestamptz(chance: random.Random) -> str:
    # In the last day of the calendar, and the first, another zone may be in a year that Python does not have.
    year = chance.choice((1581, 1969, 1970, 2026))
    zone = chance.choice(("+00", "-08", "+05:30", "+13:45"))
    return f"{year}{_timestamp(chance)[4:]}{zone}"


def _number(*greatest: int) -> Callable[[random.Random], str]:
    return lambda chance: str(chance.choice((0, 1, -1, *greatest, chance.randrange(1000))))


def _json(chance: random.Random) -> str:
    return json.dumps({_text(chance): [chance.randrange(9), None, _text(chance)]})


_LITERALS: Mapping[str, Callable[[random.Random], str]] = {
    "boolean": lambda chance: chance.choice(("t", "f")),
    "smallint": _number(2**15 - 1, -(2**15)),
    "integer": _number(2**31 - 1, -(2**31)),
    "bigint": _number(2**63 - 1, -(2**63)),
    "real": lambda chance: chance.choice(
        ("0", "-0", "1e-40", "3.4e38", "NaN", "Infinity", str(chance.random()))
    ),
    "double precision": lambda chance: chance.choice(
        ("0", "-0", "5e-324", "1.7e308", "NaN", "-Infinity", str(chance.random()))
    ),
    "numeric": lambda chance: chance.choice(
        ("0", "-0.00", "NaN", "1e30", "123456789012345678901234567890.5", "0." + "0" * 30 + "1", "7.10")
    ),
    "text": _text,
    "date": _date,
    "time without time zone": _time,
    "time with time zone": lambda chance: _time(chance) + "+02",
    "timestamp without time zone": _timestamp,
    "timestamp with time zone": _timestamptz,
    "interval": lambda chance: (
        f"{chance.randrange(99)} mons {chance.randrange(-99, 99)} days {_time(chance)}"
    ),
    "uuid": lambda chance: f"{chance.getrandbits(128):032x}",
    "bytea": lambda chance: "\\x" + chance.randbytes(chance.choice((0, 1, 20))).hex(),
    "json": _json,
    "jsonb": _json,
    "inet": lambda chance: f"10.0.{chance.randrange(256)}.1/24",
    "mood": lambda chance: chance.choice(("sad", "ok", "happy: ä")),
}
