"""The command `tidegate`: handed to the service of its project where one runs, else run here."""

from __future__ import annotations

import sys

from tidegate.service.caller import handed_over


def main() -> int:
    """The exit code of the command."""
    code = handed_over(sys.argv[1:])
    if code is not None:
        return code
    from tidegate.cli.app import main as run  # noqa: PLC0415 - a command that was handed over needs none of it

    return run()


if __name__ == "__main__":
    sys.exit(main())
