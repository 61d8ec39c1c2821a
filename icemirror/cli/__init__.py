"""The `icemirror` command."""
