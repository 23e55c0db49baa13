"""The command `explain`: what an error code means, what causes it, and what to do. Needs no project."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Argument

from tidegate.cli import explanations
from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table
from tidegate.core.spelling import suggest
from tidegate.errors import ConfigError


def explain(
    shell: Shell,
    code: Annotated[str | None, Argument(metavar="CODE", help="The code of an error, such as history_gone.")] = None,
) -> int:
    """Explains an error code, or lists all codes."""
    codes = explanations.overview()
    if code is None:
        if shell.as_json:
            keys = ("code", "exit_code", "meaning")
            shell.document(
                {"codes": [dict(zip(keys, (name, int(end), meaning), strict=True)) for name, end, meaning in codes]}
            )
        shell.table(Table(columns=("code", "exit code", "meaning"), rows=codes))
        return 0
    known = code.removeprefix("error[").removesuffix("]")
    text = explanations.find(known)
    if text is None:
        names = [name for name, _, _ in codes]
        raise ConfigError(
            f"no error has the code {code!r}; {suggest(known, names)}", hint="`tidegate explain` lists all codes."
        )
    if shell.as_json:
        shell.document({"code": known, "explanation": text})
    elif sys.stdout.isatty():
        from rich.console import Console  # noqa: PLC0415 - a pipe needs no Rich
        from rich.markdown import Markdown  # noqa: PLC0415 - as above

        Console(width=min(Console().width, 100)).print(Markdown(text))
    else:
        shell.result(text)
    return 0
