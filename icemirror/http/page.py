"""The status page: one self-contained file, with a policy that forbids the browser to load anything else."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from dataclasses import dataclass
from importlib.resources import files

from icemirror import __version__


@dataclass(frozen=True, slots=True)
class Page:
    """The page, and the content security policy that allows only its script and style."""

    body: bytes
    content_security_policy: str


def render_page(*, project_ref: str, environment: str) -> Page:
    """Return the status page of this project."""
    text = files("icemirror.http").joinpath("page.html").read_text(encoding="utf-8")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hashes(text, 'script')}",
            f"style-src {_hashes(text, 'style')}",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
    for name, value in (("project", project_ref), ("environment", environment), ("version", __version__)):
        text = text.replace(f"{{{{{name}}}}}", html.escape(value))
    return Page(text.encode(), policy)


def _hashes(text: str, element: str) -> str:
    contents = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() for content in contents)
    return " ".join(f"'sha256-{digest}'" for digest in digests)
