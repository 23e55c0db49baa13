"""The command `tidegate`: handed to the service of its project where one runs, else run here."""

from __future__ import annotations

import os
import sys

from tidegate.service.caller import handed_over


def main() -> int:
    """The exit code of the command."""
    _open_closed_streams()
    code = handed_over(sys.argv[1:])
    if code is not None:
        return code
    from tidegate.cli.app import main as run  # noqa: PLC0415 - a command that was handed over needs none of it

    return run()


def _open_closed_streams() -> None:
    """The next file or socket that is opened would take the number of a stream that a shell closed, and its output."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    sys.exit(main())
