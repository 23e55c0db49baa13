"""Decides nothing: `python -m tidegate.demo [DIR]` lets the next day arrive in a demo's source."""

import sys
from pathlib import Path

from rich.console import Console

from tidegate.demo.story import next_day
from tidegate.errors import TidegateError

if __name__ == "__main__":
    try:
        next_day(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"), Console())
    except TidegateError as error:
        sys.stderr.write(f"{error.message}\n{error.hint}\n")
        sys.exit(error.exit_code)
