"""The configuration that a Terraform installation gives out, as the file that commands read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import yaml

from icemirror.errors import BadConfig
from icemirror.settings.load import parse_settings

OUTPUT = "configuration"
_WRITTEN = "# Written by `icemirror config from-terraform`: change Terraform's variables, not this file.\n"


def from_terraform(outputs: str, name: str, environ: Mapping[str, str]) -> str:
    """The file's text, from what `terraform output -json` printed; refused if it would not work."""
    try:
        found = json.loads(outputs)
    except ValueError as error:
        raise BadConfig(f"expected what `terraform output -json` prints; this is not JSON: {error}") from None
    match found:
        case {} if name in found:
            output = found[name]
        case _:
            raise BadConfig(
                f"Terraform has no output {name!r}: pass the module's on, "
                f"`output {json.dumps(name)} {{ value = module.icemirror.{OUTPUT} }}`, apply, and try again"
            )
    match output:
        case {"value": dict(value)}:
            text = _WRITTEN + yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)
        case _:
            raise BadConfig(f"Terraform's output {name!r} is no configuration: expected keys and values")
    parse_settings(text, Path(f"terraform output {name}"), environ)
    return text
