"""The product and its docs use plain technical English: no words of the old dialect, no class name twice."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.unit.house.tracked import texts

PACKAGES = ("icemirror", "trigger", "spark_job")

# Replacement → words to replace. Patterns are narrow, so that a match is never a false alarm.
REPLACED_WORDS = {
    "report, receive, contain, state": r"told|tells? of|hears? of|heard of",
    "recreate, rebuild, rewrite": r"anew",
    "compact": r"puts? (?:small )?(?:data )?files together",
    "reject": r"puts? aside|put them aside",
    "repair, rebuild": r"mend(?:s|ed|ing)?|heal(?:s|ed|ing)?",
    "check, poll, scan, validate, preview": r"look(?:s|ed|ing)? at|first look|looks? ahead",
    "index, apply": r"catch(?:es)? up with|caught up with|takes? in what|taken in(?=[.,;:])",
    "missing, unreachable, deleted": r"(?:is|are|was|were) (?:gone|not there)|is away",
    "the user, another writer, no …": r"somebody|nobody|whoever",
    "blocked, requires action": r"needs? a person",
    "a specific error": r"(?:refused|named|error|errors) by name",
    "separate": r"of (?:its|their|his) own",
    "skipped": r"left alone|leaves? (?:it|them) alone",
    "diverged": r"lost track",
    "small": r"little(?!-endian)",
    "dependencies": r"surroundings",
    "now": r"moment",
}
DIALECT = re.compile(rf"\b(?:{'|'.join(REPLACED_WORDS.values())})\b", re.IGNORECASE)

# Matches that are not rewritten yet, by top-level folder or file: a number may only fall.
REMAINING = {"docs": 2, "icemirror": 0, "spark_job": 0, "trigger": 0}
# Packages that have no matches left.
CLEAN = ("icemirror/cli/", "spark_job/engine/", "spark_job/merge/")


def texts_of_python(source: str) -> Iterator[str]:
    """Yield docstrings, messages and comments. Strings without a space are names, not text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def find_dialect(name: str, text: str) -> list[str]:
    """Return the replaced words in a file of the product or its docs."""
    pieces = texts_of_python(text) if name.endswith(".py") else [text]
    return [match[0] for piece in pieces for match in DIALECT.finditer(" ".join(piece.split()))]


def is_read_by_users(name: str) -> bool:
    path = Path(name)
    if path.parts[0] in PACKAGES:
        return path.suffix in {".py", ".html"}
    if path.parts[0] in {"docs", "infra", "examples"}:
        return (
            path.suffix in {".md", ".tf", ".tpl", ".yaml"}
            and "development" not in name
            and "glossary" not in name
        )
    return name in {"README.md", "CONTRIBUTING.md", "SECURITY.md"}


def class_names() -> Counter[str]:
    """Count the definitions of each public class name of the product."""
    return Counter(
        node.name
        for name, text in texts().items()
        if name.endswith(".py") and name.split("/")[0] in PACKAGES
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


@cache
def found_words() -> dict[str, list[str]]:
    return {
        name: words
        for name, text in texts().items()
        if is_read_by_users(name) and (words := find_dialect(name, text))
    }


def test_clean_packages_use_no_replaced_word() -> None:
    assert not {name: words for name, words in found_words().items() if name.startswith(CLEAN)}


def test_replaced_words_do_not_increase() -> None:
    counts: Counter[str] = Counter()
    for name, words in found_words().items():
        counts[name.split("/")[0]] += len(words)
    assert not {area: count for area, count in counts.items() if count > REMAINING.get(area, 0)}


@pytest.mark.parametrize(
    "sentence",
    [
        "The trigger is told of a commit.",
        "The mirror is built anew.",
        "Damaged segments are mended.",
        "Others look at the head.",
        "The table is gone.",
        "Nobody knows\nits value.",
        "It has a thread of its own.",
        "A little slice runs here.",
    ],
)
def test_planted_sentence_is_found(sentence: str) -> None:
    assert find_dialect("docs/planted.md", sentence)
    assert find_dialect("icemirror/planted.py", f'"""{sentence}"""\n')
    assert find_dialect("icemirror/planted.py", f"log.warning({sentence!r}, table=name)\n")
    assert find_dialect("icemirror/planted.py", f"print(f'{{name}}: ' {sentence!r})\n")
    assert find_dialect("icemirror/planted.py", f"x = 1  # {' '.join(sentence.split())}\n")


@pytest.mark.parametrize(
    "source",
    [
        'np.packbits(mask, bitorder="little")  # little-endian\n',
        'told = settings["needs-person"]\n',
        '"""Return the row at this location, or None if it is deleted."""\n',
    ],
)
def test_names_and_plain_sentences_are_not_dialect(source: str) -> None:
    assert not find_dialect("icemirror/planted.py", source)


def test_no_class_name_is_defined_twice() -> None:
    assert not [name for name, count in class_names().items() if count > 1]


def test_every_module_of_the_job_is_in_a_package() -> None:
    loose = {Path(name).name for name in texts() if re.fullmatch(r"spark_job/\w+\.py", name)}
    assert loose == {"__init__.py", "__main__.py", "pipeline.py"}
