"""The inputs and outputs of a Terraform module, as the tables of its README.

`python -m tests.infra.module_docs` rewrites the tables of all modules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.infra.terraform import OURS

MODULES = [OURS, *sorted((OURS / "modules").iterdir())]
_BLOCK = re.compile(r'^(variable|output) "(\w+)" \{\n(.*?)^\}', re.MULTILINE | re.DOTALL)
_ATTRIBUTE = r"^  {name} += (.+?)\n(?=  \w|\n|\Z)"


@dataclass(frozen=True)
class Block:
    """A variable or an output."""

    kind: str
    name: str
    body: str

    def attribute(self, name: str) -> str | None:
        """Return the expression of an attribute in one line; None if the block does not set it."""
        found = re.search(_ATTRIBUTE.format(name=name), self.body, re.MULTILINE | re.DOTALL)
        return None if found is None else _one_line(found[1])

    @property
    def description(self) -> str:
        text = json.loads(self.attribute("description") or '""')
        assert isinstance(text, str)
        return text


def blocks(module: Path) -> Iterator[Block]:
    """Yield the variables and outputs of a module."""
    for file in sorted(module.glob("*.tf")):
        for kind, name, body in _BLOCK.findall(file.read_text(encoding="utf-8")):
            yield Block(kind, name, body)


def tables(module: Path) -> str:
    """Return the end of a module's README: a table of inputs and a table of outputs."""
    found = list(blocks(module))
    inputs = [
        (
            block.name,
            _code(block.attribute("type")),
            _code(block.attribute("default")) or "required",
            block.description,
        )
        for block in found
        if block.kind == "variable"
    ]
    outputs = [(block.name, block.description) for block in found if block.kind == "output"]
    return (
        f"## Inputs\n\n{_table(('name', 'type', 'default', 'description'), inputs)}\n"
        f"## Outputs\n\n{_table(('name', 'description'), outputs)}"
    )


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *((f"`{name}`", *rest) for name, *rest in rows)]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _code(expression: str | None) -> str:
    return "" if expression is None else f"`{expression}`"


def _one_line(expression: str) -> str:
    """Join a multi-line expression, such as the type of an object."""
    lines = [re.sub(r" +", " ", line.strip()) for line in expression.splitlines()]
    joined = lines[0]
    for previous, line in pairwise(lines):
        opens, closes = previous.endswith(("{", "[", "(")), line.startswith(("}", "]", ")"))
        joined += (" " if opens or closes else ", ") + line
    return joined


if __name__ == "__main__":
    for module in MODULES:
        readme = module / "README.md"
        text = readme.read_text(encoding="utf-8").partition("## Inputs\n")[0]
        readme.write_text(f"{text.rstrip()}\n\n{tables(module)}", encoding="utf-8")
