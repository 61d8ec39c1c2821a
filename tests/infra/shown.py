"""What `terraform show -json` tells of what was made."""

from __future__ import annotations

from typing import Any


def of_type(module: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """What the resources of a kind were made with, in a module and those within it."""
    own = [one["values"] for one in module.get("resources", ()) if one["type"] == kind]
    return own + [found for child in module.get("child_modules", ()) for found in of_type(child, kind)]


def lowered(told: Any) -> Any:
    """Members as AWS' client names them, where the scheduler wants a capital; names of properties stay."""
    match told:
        case dict():
            return {
                name[0].lower() + name[1:]: value if name in ("Properties", "Tags") else lowered(value)
                for name, value in told.items()
            }
        case list():
            return [lowered(one) for one in told]
        case _:
            return told
