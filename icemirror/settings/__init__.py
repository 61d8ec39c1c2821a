"""The one YAML file that configures everything."""

from icemirror.settings.expand import expand_discovered
from icemirror.settings.find import find_config
from icemirror.settings.load import load_settings
from icemirror.settings.model import Settings
from icemirror.settings.tables import TableSettings

__all__ = ["Settings", "TableSettings", "expand_discovered", "find_config", "load_settings"]
