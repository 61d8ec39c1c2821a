"""The option `-c/--config`, and loading the configuration that it names."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from icemirror.telemetry.redaction import register_secret

if TYPE_CHECKING:
    from icemirror.settings import Settings

# Any: click's decorators take functions and commands of every signature.
Command = TypeVar("Command", bound=Callable[..., Any])


def config_option(command: Command) -> Command:
    """Add `-c/--config FILE`, passed as `config`, which `load_configuration` accepts."""
    return click.option(
        "-c",
        "--config",
        metavar="FILE",
        callback=_inherit_option,
        help="Configuration file.  [default: $ICEMIRROR_CONFIG, $CONFIG_FILE, then ./icemirror.yaml]",
    )(command)


def _inherit_option(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return the option after the command's name, else the one before it."""
    parent = ctx.parent
    while value is None and parent is not None:
        value = parent.params.get("config")
        parent = parent.parent
    return value


def load_configuration(config: str | None) -> Settings:
    """Return the settings, and register their secrets for redaction."""
    from icemirror.config_file.find import find_config
    from icemirror.config_file.load import load_settings

    settings = load_settings(find_config(config, os.environ), os.environ)
    for secret in settings.secret_values():
        register_secret(secret)
    return settings
