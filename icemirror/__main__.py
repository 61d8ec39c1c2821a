"""`python -m icemirror` is the `icemirror` command."""

from icemirror.cli.entry import main

if __name__ == "__main__":
    main()
