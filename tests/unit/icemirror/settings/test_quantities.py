from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icemirror.settings.quantities import format_bytes, format_seconds, parse_bytes, parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("2s", 2),
        ("5m", 300),
        ("1h", 3600),
        ("7d", 604800),
        ("0s", 0),
        ("90", 90),
        ("1.5h", 5400),
        (" 2 s ", 2),
        (30, 30),
        (0.25, 0.25),
        ("0.1s", 0.1),
        ("1.1h", 3960.0),
    ],
)
def test_durations_are_parsed_to_seconds(text: object, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "s", "-1s", "1 hour", "5M", "1h30m", "1e3s", "nan", "inf", "٣s", None, True, [], -1, float("nan")],
)
def test_invalid_duration_is_refused_with_examples(text: object) -> None:
    with pytest.raises(ValueError, match=r"duration.*ms"):
        parse_seconds(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64KB", 65536),
        ("512MB", 512 << 20),
        ("1GB", 1 << 30),
        ("2tb", 2 << 40),
        ("1MiB", 1 << 20),
        ("1.5KB", 1536),
        ("0B", 0),
        ("12", 12),
        (7, 7),
    ],
)
def test_sizes_are_parsed_to_bytes_in_powers_of_1024(text: object, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "1 PB", "1.3B", "x", None, False, {}])
def test_invalid_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"size|whole number of bytes"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.5, "500ms"),
        (60.0, "1m"),
        (90.0, "90s"),
        (3600.0, "1h"),
        (604800.0, "7d"),
        (0.0, "0s"),
        (0.0001, "0.0001s"),
    ],
)
def test_durations_are_formatted_with_the_largest_fitting_unit(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@given(st.floats(min_value=0, max_value=1e12, allow_nan=False))
def test_duration_is_equal_after_a_round_trip(seconds: float) -> None:
    assert parse_seconds(format_seconds(seconds)) == seconds


@given(st.integers(min_value=0, max_value=2**70))
def test_size_is_equal_after_a_round_trip(size: int) -> None:
    assert parse_bytes(format_bytes(size)) == size


def test_too_long_duration_is_refused() -> None:
    with pytest.raises(ValueError, match="too long for a duration"):
        parse_seconds("9" * 400 + "d")
