"""Lets `python -m tidegate` run the command `tidegate`."""

import sys

from tidegate.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
