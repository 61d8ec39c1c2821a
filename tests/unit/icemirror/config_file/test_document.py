from __future__ import annotations

import pytest

from icemirror.config_file.document import Document, read_document
from icemirror.settings.section import with_yaml_types


def messages(document: Document) -> list[tuple[int, str]]:
    return [(problem.line, problem.message) for problem in document.problems]


def test_scalars_are_kept_as_text() -> None:
    text = "a: 1.10\nb: no\nc: 12:30:45\nd: 2026-01-02\ne: 0x1F\nf: '7'\ng: ~\nh:\ni: [1, x]\n"
    assert read_document(text).value == {
        "a": "1.10",
        "b": "no",
        "c": "12:30:45",
        "d": "2026-01-02",
        "e": "0x1F",
        "f": "7",
        "g": None,
        "h": None,
        "i": ["1", "x"],
    }


def test_free_form_sections_get_yaml_types_and_quoted_values_stay_text() -> None:
    text = "replicas: 2\nenabled: true\nratio: 0.5\nname: '2'\nlist: [1, {x: no}]\nday: 2026-01-02\n"
    assert with_yaml_types(read_document(text).value) == {
        "replicas": 2,
        "enabled": True,
        "ratio": 0.5,
        "name": "2",
        "list": [1, {"x": False}],
        "day": "2026-01-02",
    }


def test_every_value_has_its_line() -> None:
    document = read_document("a: 1\nb:\n  - c: 2\n    d: 3\n  - {e: 4}\n")
    assert document.find_line(("a",)) == 1
    assert document.find_line(("b", 0, "d")) == 4
    assert document.find_line(("b", 1, "e")) == 5
    assert document.find_line(("b", 0, "missing", "deeper")) == 3


def test_duplicate_key_is_refused() -> None:
    document = read_document("a: 1\nb: 2\na: 3\n")
    assert messages(document) == [(3, "given twice; first in line 1")]


def test_explicit_keys_override_merged_mappings() -> None:
    document = read_document("base: &base {a: 1, b: 2}\nuse:\n  <<: *base\n  b: 3\n")
    assert document.problems == []
    assert document.value == {"base": {"a": "1", "b": "2"}, "use": {"a": "1", "b": "3"}}
    assert document.find_line(("use", "b")) == 4


def test_first_of_several_merged_mappings_wins() -> None:
    document = read_document("x: &x {a: 1}\ny: &y {a: 2, b: 2}\nuse: {<<: [*x, *y]}\n")
    assert document.value == {"x": {"a": "1"}, "y": {"a": "2", "b": "2"}, "use": {"a": "1", "b": "2"}}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: [1\nb: 2\n", 2, "not valid YAML"),
        (
            "a: b: c\n",
            1,
            'not valid YAML: mapping values are not allowed here (column 5); quote a value that contains ": "',
        ),
        (
            "a:\n  b\n    c: 1\n",
            3,
            'a ":" may be missing at the end of line 2, or the indentation is wrong',
        ),
        ('a: 1\nb: "c\nd: 2\n', 2, "not valid YAML: a quote is not closed"),
        ("a: 1\nb: [c, d\n", 2, "not valid YAML: a [ or { is not closed"),
        ("a:\n\t- b\n", 2, "indent with spaces, not tabs"),
        ("s: {dsn: ${DSN}}\n", 1, 'quote "${NAME}"'),
        ("p: [bucket[4](id)]\n", 1, "quote values that contain brackets"),
        ("a: *nowhere\n", 1, "found undefined alias"),
        ("a: 1\n---\nb: 2\n", 2, "but found another document"),
        ("a: \x00\n", 1, "a character that YAML does not allow"),
        ("a: !!python/object/apply:os.system [id]\n", 1, "is not allowed"),
        ("a: !secret x\n", 1, "the tag '!secret' is not allowed"),
        ("a: !!binary aGk=\n", 1, "is not allowed"),
        ("a: !!int x\n", 1, "does not match its tag"),
        ("a: 1\n? [b, c]\n: d\n", 2, "a key must be plain text"),
        ("a: &a [*a]\n", 1, "an alias that contains itself"),
        ("a:\n  <<: 3\n", 2, "<< needs a mapping"),
    ],
)
def test_invalid_yaml_is_reported_with_its_line(text: str, line: int, message: str) -> None:
    found = messages(read_document(text))
    assert found[0][0] == line
    assert message in found[0][1]


def test_aliases_cannot_exhaust_memory() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    document = read_document("\n".join(levels))
    assert len(document.problems) == 1
    assert "check the aliases" in document.problems[0].message


def test_deep_nesting_is_an_error() -> None:
    for depth in (150, 350, 1500):
        document = read_document("a: " + "[" * depth + "]" * depth)
        assert document.problems[0].message == "nested too deeply"
