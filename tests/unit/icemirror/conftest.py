from __future__ import annotations

from pathlib import Path

import pytest

from icemirror.config_file.load import load_settings
from icemirror.errors import BadConfig
from icemirror.settings import Settings
from tests.unit.icemirror.settings.samples import CATALOG, Load, Refuse


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a text as `icemirror.yaml` in an empty folder."""

    def load_text(text: str | bytes, environ: dict[str, str] | None = None) -> Settings:
        path = tmp_path / "icemirror.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_settings(path, environ or {})

    return load_text


@pytest.fixture
def load_table(load: Load) -> Load:
    """Load a configuration with one table, given by its keys."""

    def load_options(options: str) -> Settings:
        return load(f"{CATALOG}tables:\n  - {{changelog: raw.o, mirror: shop.o, {options}}}\n")

    return load_options


@pytest.fixture
def refuse(load: Load, tmp_path: Path) -> Refuse:
    """Return the problems of a text that must be refused, as `icemirror.yaml:3: …`."""

    def problems(text: str | bytes, environ: dict[str, str] | None = None) -> list[str]:
        with pytest.raises(BadConfig) as refused:
            load(text, environ)
        lines = str(refused.value).replace(f"{tmp_path}/", "").splitlines()
        return lines[1:] if len(lines) > 1 else lines

    return problems


@pytest.fixture
def refuse_table(refuse: Refuse) -> Refuse:
    """Return the problems of one table, given by its keys, without file and line."""

    def problems(options: str, names: str = "changelog: raw.o, mirror: shop.o, ") -> list[str]:
        lines = refuse(f"{CATALOG}tables:\n  - {{{names}{options}}}\n")
        return [line.removeprefix("icemirror.yaml:3: ").removeprefix("tables[0].") for line in lines]

    return problems
