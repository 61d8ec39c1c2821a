"""Every secret in the settings, for those who must keep them out of logs and messages."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, SecretStr

from icemirror.settings.masking import is_secret_name, url_secrets


def secret_values(value: object, name: str = "") -> Iterator[str]:
    """The secrets at or below a value of the settings."""
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case str() if is_secret_name(name):
            yield value
        case str():
            yield from url_secrets(value)
        case BaseModel():
            # The name of a section's own key says nothing: its secrets are of their own type.
            for _, inner in value:
                yield from secret_values(inner)
        case dict():
            for key, inner in value.items():
                yield from secret_values(inner, str(key))
        case list() | tuple():
            for inner in value:
                yield from secret_values(inner)
        case _:
            pass
