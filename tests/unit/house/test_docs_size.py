"""The documentation stays short, and names only files that exist."""

from __future__ import annotations

import re

from tests.unit.house.tracked import ROOT, texts

WORD_LIMIT = 29_700
PAGES = {
    name: text
    for name, text in texts().items()
    if name.startswith("docs/") and name.endswith(".md") and "/decisions/" not in name
}
_PATH = re.compile(
    r"`((?:icemirror|trigger|spark_job|tests|benchmarks|scripts|infra|examples|docs)/[\w./-]+\.\w+)"
)


def test_docs_stay_below_the_word_limit() -> None:
    """Counted as `wc -w` does, without decision records. If this fails, cut before you add."""
    words = sum(len(text.split()) for text in PAGES.values())
    assert words < WORD_LIMIT


def test_files_named_in_pages_exist() -> None:
    named = {(page, path) for page, text in PAGES.items() for path in _PATH.findall(text)}
    assert len(named) > 20
    assert sorted((page, path) for page, path in named if not (ROOT / path).exists()) == []
