"""`python -m icemirror` is the `icemirror` command."""

from icemirror.cli.main import main

if __name__ == "__main__":
    main()
