"""Makes `docs/screens.md`: what commands show on a terminal, captured in tmux from a project that is made for it.

Needs tmux and what a run needs. Run it after a change of what commands print: `python scripts/docs_screens.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Self

PAGE = Path(__file__).parent.parent / "docs" / "screens.md"
SESSION = "tidegate-screens"
TALL = 60
NARROW, WIDE = 80, 140
PATIENCE = 240.0  # seconds
ANSI_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7])[;m]")

PROJECT = """\
connections: {shop: {url: "sqlite:///shop.db"}}
spark: {master: "local[2]", conf: {spark.driver.memory: 1g}}
streams:
  orders:
    source: {connection: shop, table: orders}
    target: lake.shop.orders
    key: [id]
    strategy: {kind: watermark, column: updated_at}
    write: merge
    checks: [{expression: "amount >= 0", on_fail: quarantine}, {not_null: note, on_fail: warn}]
    schedule: {every: 5m}
  items:
    source: {connection: shop, table: items}
    target: lake.shop.items
    strategy: {kind: full}
    write: replace
  refunds:
    source: {connection: shop, table: refunds}
    target: lake.shop.refunds
    strategy: {kind: full}
    write: replace
"""
ORDERS = (
    "CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, amount INTEGER, note TEXT, updated_at TIMESTAMP NOT NULL)"
)


def make_project(folder: Path) -> None:
    """A shop of 20,000 orders, a third of which break a check, 500 items, and a stream whose table is not there."""
    (folder / "tidegate.yaml").write_text(PROJECT, encoding="utf-8")
    with closing(sqlite3.connect(folder / "shop.db")) as database, database:
        database.execute(ORDERS)
        database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY NOT NULL, name TEXT)")
        days = (
            (
                number,
                -1 if number % 3 == 0 else number,
                None if number % 1000 == 1 else "by card",
                f"2025-01-{1 + number // 1000:02} {number // 60 % 24:02}:{number % 60:02}:00",
            )
            for number in range(20_000)
        )
        database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", days)
        database.executemany("INSERT INTO items VALUES (?, ?)", ((number, f"item {number}") for number in range(500)))


class Terminal:
    """A window of tmux with a shell in a folder."""

    def __init__(self, folder: Path, width: int, *, colour: bool = True) -> None:
        self._tmux("new-session", "-d", "-s", SESSION, "-x", str(width), "-y", str(TALL), "bash --norc --noprofile")
        setting = "" if colour else "export NO_COLOR=1; "
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        packages = os.environ.get("PYTHONPATH", "")
        self.say(f"cd {folder}; export PATH={path} PYTHONPATH={packages} TERM=tmux-256color; {setting}PS1='$ '")
        time.sleep(1)
        self.say("clear; tmux clear-history")
        time.sleep(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-session", "-t", SESSION)
        time.sleep(1)  # the server ends with its last session

    def say(self, line: str) -> None:
        """Types a line."""
        self._tmux("send-keys", "-t", SESSION, line, "Enter")

    def shown(self) -> str:
        """What the window shows, with escapes of colour."""
        return self._tmux("capture-pane", "-p", "-e", "-S", "-", "-t", SESSION).rstrip()

    def until(self, pattern: str) -> str:
        """What it shows once a line matches."""
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE:
            text = self.shown()
            if re.search(pattern, ANSI_COLOUR.sub("", text), re.MULTILINE):
                return text
            time.sleep(0.1)
        raise SystemExit(f"nothing like {pattern!r} was shown, but:\n{self.shown()}")

    def run(self, command: str) -> str:
        """What a command leaves on the window."""
        self.say(command)
        time.sleep(1)
        return re.sub(r"\n\$$", "", self.until(r"^\$$").rstrip())

    @staticmethod
    def _tmux(*words: str) -> str:
        done = subprocess.run(["tmux", *words], capture_output=True, text=True, check=True)  # noqa: S603, S607
        return done.stdout


def block(text: str, upto: str | None = None) -> str:
    """A block of the page, cut before a line that begins so."""
    lines = [line.rstrip() for line in ANSI_COLOUR.sub("", text).splitlines()]
    end = next((place for place, line in enumerate(lines) if upto and line.startswith(upto)), len(lines))
    return "```text\n" + "\n".join(lines[:end]).rstrip() + "\n```\n"


def captured(folder: Path) -> dict[str, str]:
    """The blocks of the page by name."""
    found = {}
    for width in (WIDE, NARROW):
        for left in (".tidegate", "warehouse"):
            shutil.rmtree(folder / left, ignore_errors=True)  # each width has a first run
        with Terminal(folder, width) as terminal:
            found[f"plan_{width}"] = block(terminal.run("tidegate plan"))
            terminal.say("clear; tmux clear-history; tidegate run")
            if width == NARROW:
                found["moving"] = block(terminal.until(r"━ +(check|write|verify) "))
            terminal.until(r"^\$$")
            # What moved is gone by now; the lines of the streams and the table stay.
            found[f"run_{width}"] = block(terminal.shown().rpartition("\n$")[0])
    for name, command, upto in (
        ("status", "tidegate status", None),
        ("history", "tidegate history orders", None),
        ("show", "tidegate show orders", "--- pyiceberg"),
    ):
        for width in (NARROW, WIDE):
            with Terminal(folder, width) as terminal:
                found[f"{name}_{width}"] = block(terminal.run(command), upto)
    with Terminal(folder, NARROW, colour=False) as terminal:
        for command in ("tidegate status", "tidegate run"):
            if COLOUR.search(shown := terminal.run(command)):
                raise SystemExit(f"`{command}` has colours although NO_COLOR is set:\n{shown!r}")
    return found


TEXT = """\
# What a terminal shows

Captured from a terminal of 80 columns, unless stated otherwise, by `scripts/docs_screens.py`. A stream `orders` has
20,000 rows of which a third breaks a check with `on_fail: quarantine`; the table of the stream `refunds` is not there.

## A plan

{plan_80}
In a window of 140 columns:

{plan_140}
## A run

During the run there is one line for each stream that is loading:

{moving}
Afterwards there is one line for each stream, then the table, notes and errors. Row counts that are zero in every line
are left out.

{run_80}
In a window of 140 columns:

{run_140}
## Status

{status_80}
In a window of 140 columns:

{status_140}
## History

A table that is wider than the window leaves out a minor column; if a number or a word would still have to be broken,
each row becomes a block of lines.

{history_80}
In a window of 140 columns:

{history_140}
## A table

{show_80}
The snippets of the other engines follow. With `NO_COLOR` there are no colours; a pipe gets plain, aligned
lines with every column.
"""


def main() -> None:
    """Writes the page."""
    folder = Path(tempfile.gettempdir()) / "shop"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        make_project(folder)
        PAGE.write_text(TEXT.format(**captured(folder)), encoding="utf-8")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
