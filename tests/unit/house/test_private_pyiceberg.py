"""Only `spark_job/pyiceberg_private` imports or uses private names of PyIceberg, or patches its classes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyiceberg
import pytest

from tests.unit.house.tracked import ROOT, texts

PRIVATE_PACKAGE = "spark_job/pyiceberg_private/"
PRODUCT = ("icemirror/", "trigger/", "spark_job/")


def _is_private(name: str) -> bool:
    return len(name) > 1 and name.startswith("_") and not name.startswith("__")


def _defined(tree: ast.AST) -> Iterator[str]:
    """Private functions, methods, fields and attributes of `self` that a module defines."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


# As `_defined` does, without parsing all of PyIceberg.
_PRIVATE_NAME = re.compile(
    r"^\s*(?:async\s+)?(?:def|class)\s+(_[A-Za-z]\w*)"
    r"|\bself\.(_[A-Za-z]\w*)\s*(?::[^=\n]+)?=(?!=)"
    r"|^\s*(_[A-Za-z]\w*)\s*:(?!=)",
    re.MULTILINE,
)


@cache
def _private_names() -> frozenset[str]:
    """Return PyIceberg's private names."""
    files = Path(pyiceberg.__path__[0]).rglob("*.py")
    found = (match.groups() for file in files for match in _PRIVATE_NAME.finditer(file.read_text()))
    return frozenset(name for names in found for name in names if name)


def private_uses(source: str) -> list[str]:
    if "pyiceberg" not in source:
        return []
    tree = ast.parse(source)
    theirs = _private_names() - {name for name in _defined(tree) if _is_private(name)}
    imported: set[str] = set()
    found: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] == "pyiceberg":
                imported |= {alias.asname or alias.name for alias in names}
                path = [*module.split("."), *(alias.name for alias in names)]
                found += [f"imports {name}" for name in path if _is_private(name)]
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super"))):
                continue
            case ast.Attribute(value=ast.Name(id=name), attr=attr, ctx=ast.Store()) if name in imported:
                found.append(f"patches {name}.{attr}")
            case ast.Attribute(attr=attr) if _is_private(attr) and attr in theirs:
                found.append(f"uses {attr}")
            case ast.Constant(value=str(text)) if _is_private(text) and text in theirs:
                found.append(f"uses {text}")
    return found if imported else []


def test_private_names_of_pyiceberg_stay_in_one_package() -> None:
    found = {
        f"{path}: {use}"
        for path, text in texts().items()
        if path.endswith(".py") and path.startswith(PRODUCT) and not path.startswith(PRIVATE_PACKAGE)
        for use in private_uses(text)
    }
    assert not found


@pytest.mark.parametrize(
    ("source", "use"),
    [
        ("from pyiceberg.manifest import _inherit_from_manifest", "imports _inherit_from_manifest"),
        ("from pyiceberg.catalog import Catalog\ncatalog._load_file_io({})", "uses _load_file_io"),
        ("from pyiceberg.typedef import Record\nvalues = record._data", "uses _data"),
        (
            "from pyiceberg.catalog import Catalog\nsetattr(catalog, '_load_file_io', load)",
            "uses _load_file_io",
        ),
        ("from pyiceberg.table import Table\nTable.scan = scan", "patches Table.scan"),
    ],
    ids=["private import", "private method", "private attribute", "private name as text", "patched class"],
)
def test_planted_private_use_is_found(source: str, use: str) -> None:
    assert private_uses(source) == [use]


def test_private_package_uses_private_names() -> None:
    """Otherwise this file would search for the wrong names."""
    files = sorted((ROOT / PRIVATE_PACKAGE).glob("*.py"))
    assert sum(bool(private_uses(file.read_text())) for file in files) >= 5
