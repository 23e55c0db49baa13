"""The variables that a project file can refer to: those of the process, then of `.env.PROFILE`, then of `.env`."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import cast

from dotenv.parser import parse_stream

from tidegate.config.nodes import Mark
from tidegate.errors import ConfigError

FILE = ".env"


def variables(folder: Path, profile: str | None, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables by name, of the first place that has one.

    Args:
        folder: the project's, beside whose file the `.env` files lie.
        environ: of the process; it always wins, so that a scheduler can override a file.

    Raises:
        ConfigError: a file that cannot be read, or a line of it that is not `NAME=VALUE`.
    """
    files = [env_file(folder, profile)] if profile is not None else []
    found = [read_file(path) for path in (*files, folder / FILE)]
    return ChainMap(cast("MutableMapping[str, str]", environ), *found)  # is only read


def env_file(folder: Path, profile: str) -> Path:
    """The file of a profile's own variables."""
    return folder / f"{FILE}.{profile}"


def read_file(path: Path) -> dict[str, str]:
    """The variables of a file as they are written: `${…}` within a value is not replaced. Nothing if it is absent.

    Raises:
        ConfigError: names the file and the line, never what is written there.
    """
    found: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8-sig") as stream:
            for binding in parse_stream(stream):
                if binding.error or (binding.key is not None and binding.value is None):
                    raise Mark(file=str(path), line=_line(binding.original.line, binding.original.string)).error(
                        "is not NAME=VALUE", hint="Write one variable a line, its value in quotes if it has spaces."
                    )
                if binding.key is not None and binding.value is not None:
                    found[binding.key] = binding.value
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a UTF-8 text file"
        raise ConfigError(f"{path} cannot be read: {reason}", hint="Correct its permissions, or remove it.") from error
    return found


def _line(first: int, text: str) -> int:
    """The line of what is wrong: a binding begins with the empty lines above it."""
    return first + len(text) - len(text.lstrip("\r\n"))
