"""The command `tidegate`: handed to the service of its project where one runs, else run here."""

from __future__ import annotations

import os
import sys

from tidegate.service.caller import handed_over


def main() -> int:
    """The exit code of the command."""
    _open_closed_streams()
    if not _private_files():
        return 2
    code = handed_over(sys.argv[1:])
    if code is not None:
        return code
    from tidegate.cli.app import main as run  # noqa: PLC0415 - a command that was handed over needs none of it

    return run()


def _private_files() -> bool:
    """Keeps what is written (registry, catalog, tables, spilled rows of Spark) from other users of the machine."""
    text = os.environ.get("TIDEGATE_UMASK", "077")
    if not text or set(text) - set("01234567") or int(text, 8) > 0o777:
        sys.stderr.write(f"error[usage]: TIDEGATE_UMASK is {text!r}, and must be octal digits, such as 027\n")
        return False
    os.umask(int(text, 8))
    os.environ["TIDEGATE_UMASK"] = text  # for Hadoop, which has a mask of its own
    return True


def _open_closed_streams() -> None:
    """The next file or socket that is opened would take the number of a stream that a shell closed, and its output."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    sys.exit(main())
