"""A configuration file from Terraform's outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import yaml

from icemirror.config_file.load import parse_settings
from icemirror.errors import BadConfig

OUTPUT = "configuration"
_HEADER = "# Written by `icemirror config from-terraform`: change Terraform's variables, not this file.\n"


def from_terraform(outputs: str, name: str, environ: Mapping[str, str]) -> str:
    """Return the text of a configuration file from the output of `terraform output -json`; raise if it is invalid."""
    try:
        parsed = json.loads(outputs)
    except ValueError as error:
        raise BadConfig(
            f"the input is not JSON: pass the output of `terraform output -json`: {error}"
        ) from None
    match parsed:
        case {} if name in parsed:
            output = parsed[name]
        case _:
            raise BadConfig(
                f"Terraform has no output {name!r}: add "
                f"`output {json.dumps(name)} {{ value = module.icemirror.{OUTPUT} }}`, apply, and try again"
            )
    match output:
        case {"value": dict(value)}:
            text = _HEADER + yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)
        case _:
            raise BadConfig(f"Terraform's output {name!r} is not a configuration: expected keys and values")
    parse_settings(text, Path(f"terraform output {name}"), environ)
    return text
