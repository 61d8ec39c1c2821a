"""Which settings are secrets, and how they are masked in output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pydantic import BaseModel, SecretStr

MASK = "**********"  # as pydantic masks a SecretStr

_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|credential|key|authorization|connection-string|^header\.", re.IGNORECASE
)
_USERINFO = re.compile(r"(?<=://)([^/@:\s]*):([^/\s]*)@")
_SECRET_PARAMETER = re.compile(
    r"([?&;][^=&;]*(?:token|secret|passw|credential|key|sig)[^=&;]*=)([^&;]*)", re.IGNORECASE
)


def is_secret_name(name: str) -> bool:
    """Return whether a property of this name may hold a secret."""
    return _SECRET_NAME.search(name) is not None


def mask_url(text: str) -> str:
    """Return the text with passwords in URLs masked."""
    if "://" not in text:
        return text
    return _SECRET_PARAMETER.sub(rf"\1{MASK}", _USERINFO.sub(rf"\1:{MASK}@", text))


def url_secrets(text: str) -> list[str]:
    """Return the secrets that `mask_url` masks."""
    if "://" not in text:
        return []
    return [match[2] for match in _USERINFO.finditer(text)] + [
        match[2] for match in _SECRET_PARAMETER.finditer(text)
    ]


def mask_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties with secrets masked."""
    return {name: MASK if is_secret_name(name) else mask_url(value) for name, value in properties.items()}


def mask_tree(value: object) -> object:
    """Return a free-form document with secrets masked, including the value in `{name: X_TOKEN, value: …}`."""
    match value:
        case str():
            return mask_url(value)
        case list() | tuple():
            return [mask_tree(item) for item in value]
        case {"name": str(name), "value": str(), **others} if is_secret_name(name):
            return {"name": name, "value": MASK, **{key: mask_tree(item) for key, item in others.items()}}
        case dict():
            return {
                key: MASK
                if isinstance(item, str | int | float) and is_secret_name(str(key))
                else mask_tree(item)
                for key, item in value.items()
            }
        case _:
            return value


def secret_values(value: object, name: str = "") -> Iterator[str]:
    """Yield the secrets at or below a value of the settings, to keep them out of logs and messages."""
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case str() if is_secret_name(name):
            yield value
        case str():
            yield from url_secrets(value)
        case BaseModel():
            # Keys of sections are not checked by name: their secrets have type `SecretStr`.
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
