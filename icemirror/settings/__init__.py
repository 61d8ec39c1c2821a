"""The configuration as frozen models."""

from icemirror.settings.expand import expand_discovered
from icemirror.settings.model import Settings
from icemirror.settings.tables import TableSettings

__all__ = ["Settings", "TableSettings", "expand_discovered"]
