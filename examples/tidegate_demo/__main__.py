"""`python -m tidegate_demo [DIR]`: adds the next day's changes to a demo's source database."""

import sys
from pathlib import Path

from rich.console import Console

from tidegate.errors import TidegateError
from tidegate_demo.story import next_day

if __name__ == "__main__":
    try:
        next_day(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"), Console())
    except TidegateError as error:
        sys.stderr.write(f"{error.message}\n{error.hint}\n")
        sys.exit(error.exit_code)
