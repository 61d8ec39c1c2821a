"""The `icemirror` commands, one module each."""
