"""Relative links of README, docs and the other Markdown files point to existing files and headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.house.tracked import ROOT, texts

PAGES = sorted(name for name in texts() if name.endswith(".md"))
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(<?([^)\s>]+)>?\)|(?:href|src|srcset)=\"([^\"]+)\"")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")


def slug(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Return every anchor of a page; repeated headings get a number."""
    found: set[str] = set()
    seen: dict[str, int] = {}
    for heading in _HEADING.findall(_FENCED.sub("", text)):
        name = slug(heading)
        count = seen.get(name, 0)
        found.add(f"{name}-{count}" if count else name)
        seen[name] = count + 1
    return found | set(_ANCHOR.findall(text))


def relative_links(text: str) -> list[str]:
    """Return the links of a page to other files and headings, without those in code."""
    links = [match[1] or match[2] for match in _LINK.finditer(_CODE.sub("", text))]
    return [link for link in links if not re.match(r"[a-z]+:", link)]


def broken_links(page: Path, text: str) -> list[str]:
    """Return the links of a page whose file or heading is missing."""
    return [link for link in relative_links(text) if not target_exists(page, link)]


def target_exists(page: Path, link: str) -> bool:
    """Return whether the file of a link exists and has its heading."""
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not anchor or not target.exists():
        return target.exists()
    return target.suffix == ".md" and anchor in anchors(target.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PAGES)
def test_every_relative_link_has_an_existing_target(name: str) -> None:
    assert broken_links(ROOT / name, texts()[name]) == []


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("[a](missing.md)", ["missing.md"]),
        ("[a](page.md#no-heading)", ["page.md#no-heading"]),
        ('<img src="missing.svg">', ["missing.svg"]),
        ("[a](page.md#a-heading-with-code) [b](#here) [c](https://example.com/x)\n# Here", []),
        ("```\n[a](missing.md)\n``` `[b](missing.md)`", []),
    ],
    ids=["missing file", "missing heading", "missing picture", "good links", "code block"],
)
def test_broken_links_are_found(tmp_path: Path, text: str, broken: list[str]) -> None:
    (tmp_path / "page.md").write_text("# A heading, with `code`\n")
    page = tmp_path / "index.md"
    page.write_text(text)
    assert broken_links(page, text) == broken


def test_every_docs_page_is_linked_from_the_index() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "docs" / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        links = relative_links(page.read_text(encoding="utf-8"))
        waiting += [(page.parent / path).resolve() for link in links if (path := link.partition("#")[0])]
    docs = {ROOT / name for name in PAGES if name.startswith("docs/") and "/decisions/" not in name}
    assert sorted(str(path.relative_to(ROOT)) for path in docs - reached) == []
