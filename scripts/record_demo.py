"""Records `icemirror demo` in a terminal and writes what it shows to docs/img/demo.svg.

.venv/bin/python scripts/record_demo.py            runs the demo, about a minute and a half
.venv/bin/python scripts/record_demo.py FILE       uses the recorded output of a terminal
"""

from __future__ import annotations

import os
import pty
import re
import struct
import sys
import tempfile
from fcntl import ioctl
from io import StringIO
from pathlib import Path
from termios import TIOCSWINSZ

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "img" / "demo.svg"
COLUMNS, LINES = 112, 60
_CONTROL = re.compile(r"\x1b\[(\?)?([0-9;]*)([A-Za-z])|\r\n|\n|\r")
_GREY, _RED, _GREEN, _YELLOW = (55, 65, 81), (248, 113, 113), (74, 222, 128), (250, 204, 21)
_BLUE, _VIOLET, _CYAN, _WHITE = (96, 165, 250), (192, 132, 252), (34, 211, 238), (229, 231, 235)
_THEME = TerminalTheme((17, 24, 39), _WHITE, [_GREY, _RED, _GREEN, _YELLOW, _BLUE, _VIOLET, _CYAN, _WHITE])


def record() -> str:
    """Run the demo in a pseudo-terminal and return its output."""
    with tempfile.TemporaryDirectory() as folder:
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(folder)
            os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS))
            os.execv(sys.executable, [sys.executable, "-m", "icemirror", "demo"])  # noqa: S606 (our own command)
        ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        output = bytearray()
        while True:
            try:
                piece = os.read(terminal, 1 << 16)
            except OSError:  # Linux reports the end of the child as an error
                break
            if not piece:
                break
            output += piece
        os.waitpid(child, 0)
        return output.decode().replace(folder, ".")


def render_screen(output: str) -> list[str]:
    """Return the lines on the screen at the end, with their colours; enough for what rich writes."""
    lines, row, end = [""], 0, 0
    for control in _CONTROL.finditer(output):
        lines[row] += output[end : control.start()]
        end = control.end()
        if control[0] in ("\n", "\r\n"):
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif control[0] == "\r":
            lines[row] = ""
        elif control[3] == "A":
            row = max(0, row - int(control[2] or 1))
        elif control[3] == "K":
            lines[row] = ""
        elif control[3] == "m":
            lines[row] += control[0]
    lines[row] += output[end:]
    return lines


def trim_lines(lines: list[str]) -> list[str]:
    """Return the lines up to the hints, without blank ends; long paths are shortened."""
    texts = [Text.from_ansi(line).plain for line in lines]
    last = next((index for index, text in enumerate(texts) if text.startswith("Try next")), len(lines))
    shown = [re.sub(r"file://\S+\.metadata\.json", "….metadata.json", line) for line in lines[:last]]
    while shown and not Text.from_ansi(shown[-1]).plain.strip():
        shown.pop()
    return shown


def draw(lines: list[str]) -> str:
    """Return the lines as an SVG that loads no font from elsewhere."""
    console = Console(
        record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor"
    )
    for line in ["\x1b[1m$ make demo\x1b[0m", *lines]:
        console.print(Text.from_ansi(line), soft_wrap=False)
    picture = console.export_svg(title="icemirror demo", theme=_THEME, unique_id="demo")
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    return (
        "\n".join(line.rstrip() for line in picture.replace("Fira Code", "ui-monospace").splitlines()) + "\n"
    )


def main() -> None:
    """Write the picture."""
    output = Path(sys.argv[1]).read_bytes().decode() if sys.argv[1:] else record()
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(draw(trim_lines(render_screen(output))), encoding="utf-8")


if __name__ == "__main__":
    main()
