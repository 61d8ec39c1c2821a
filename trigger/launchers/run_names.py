"""How a run is called on a platform that keeps names: the same for every launch of its token, and of no other."""

from __future__ import annotations

import hashlib
import re

_GROUP_LETTERS = 16
_HASH_LETTERS = 6


def name_run(token: str, deployment: str) -> str:
    """`icemirror-<group>-<slot>-<gen>-<hash>`: at most 50 of the letters that Kubernetes and AWS allow in names.

    The hash tells apart groups that look alike when shortened, and deployments that share a platform.
    """
    group, slot, gen = token.rsplit("-", 2)
    short = re.sub(r"[^a-z0-9]+", "-", group.lower())[:_GROUP_LETTERS].strip("-") or "x"
    digest = hashlib.sha256(f"{deployment}\n{token}".encode()).hexdigest()[:_HASH_LETTERS]
    return f"icemirror-{short}-{slot}-{gen}-{digest}"
