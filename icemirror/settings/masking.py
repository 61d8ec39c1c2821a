"""Which values are secrets, and how they look wherever settings are shown."""

from __future__ import annotations

import re
from collections.abc import Mapping

MASK = "**********"

_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|credential|key|authorization|connection-string|^header\.", re.IGNORECASE
)
_USERINFO = re.compile(r"(?<=://)([^/@:\s]*):([^/\s]*)@")
_SECRET_PARAMETER = re.compile(
    r"([?&;][^=&;]*(?:token|secret|passw|credential|key|sig)[^=&;]*=)([^&;]*)", re.IGNORECASE
)


def is_secret_name(name: str) -> bool:
    """A property of this name holds a secret, or might."""
    return _SECRET_NAME.search(name) is not None


def mask_url(text: str) -> str:
    """The text without the password that an address in it may carry."""
    if "://" not in text:
        return text
    return _SECRET_PARAMETER.sub(rf"\1{MASK}", _USERINFO.sub(rf"\1:{MASK}@", text))


def url_secrets(text: str) -> list[str]:
    """The secrets that `mask_url` hides."""
    if "://" not in text:
        return []
    return [found[2] for found in _USERINFO.finditer(text)] + [
        found[2] for found in _SECRET_PARAMETER.finditer(text)
    ]


def mask_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties as they may be shown."""
    return {name: MASK if is_secret_name(name) else mask_url(value) for name, value in properties.items()}


def mask_tree(value: object) -> object:
    """A free-form document as it may be shown; `{name: X_TOKEN, value: …}` hides its value as well."""
    match value:
        case str():
            return mask_url(value)
        case list() | tuple():
            return [mask_tree(item) for item in value]
        case {"name": str(name), "value": str(), **rest} if is_secret_name(name):
            return {"name": name, "value": MASK, **{key: mask_tree(item) for key, item in rest.items()}}
        case dict():
            return {
                key: MASK
                if isinstance(item, str | int | float) and is_secret_name(str(key))
                else mask_tree(item)
                for key, item in value.items()
            }
        case _:
            return value
