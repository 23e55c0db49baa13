"""Hands one command to the service of its project, and never runs it here: what the triggerer starts."""

from __future__ import annotations

import sys

from tidegate.service.caller import handed_over

NO_SERVICE = 69
"""The exit code where no service of the project takes the command; `EX_UNAVAILABLE` of sysexits.h."""


def main() -> int:
    """The command's exit code, or `NO_SERVICE`."""
    code = handed_over(sys.argv[1:])
    return NO_SERVICE if code is None else code


if __name__ == "__main__":
    sys.exit(main())
