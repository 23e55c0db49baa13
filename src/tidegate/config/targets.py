"""Validates the `target:` of a stream: one table per stream, with placeholders only in patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tidegate.config.nodes import Mark, Problems
from tidegate.core.ids import RESERVED, join_name
from tidegate.core.spelling import suggest
from tidegate.errors import ConfigError

PLACEHOLDER = re.compile(r"\{[^{}]*\}")
PLACEHOLDERS = ("{table}", "{schema}")


def is_pattern(name: str) -> bool:
    """Whether a stream of that name stands for every table that matches."""
    return "*" in name or "?" in name


def refuse_placeholders(mark: Mark, parts: Iterable[str], *, filled: bool) -> None:
    """Refuses a target with a placeholder that nothing fills, and a pattern whose tables would all be one.

    Args:
        filled: the stream is a pattern; else only a part that is a placeholder and nothing else is refused, for a table
            may have such a name (a list of names, `[lake, shop, "{a}"]`, is taken as it stands).

    Raises:
        ConfigError: names the placeholder and what to write.
    """
    parts = tuple(parts)
    found = [word for part in parts for word in PLACEHOLDER.findall(part)]
    if not filled:
        whole = next((part for part in parts if PLACEHOLDER.fullmatch(part)), None)
        if whole is not None:
            raise mark.error(
                f"has {whole}, which only works in a stream with * or ? in its name; write the table's name"
            )
        return
    problems = Problems()
    for word in dict.fromkeys(found):
        if word not in PLACEHOLDERS:
            problems.found.append(mark.error(f"has {word}, which is not a placeholder; {suggest(word, PLACEHOLDERS)}"))
    problems.refuse()
    if not found:
        raise mark.error("is one table for all matching tables; put {table} where the name of each belongs")


def refuse_reserved(mark: Mark, parts: Sequence[str]) -> None:
    if RESERVED in parts[-1].lower():
        raise mark.error(
            f"the name {parts[-1]!r} contains {RESERVED!r}, which is reserved for the tables that Tidegate keeps "
            "beside others, such as a quarantine; choose another name"
        )


def shared_target(mark: Mark, target: Iterable[str], other: str) -> ConfigError:
    """The error of a stream whose table is another stream's."""
    return mark.inside("target").error(
        f"{join_name(target)} is also the target of stream {other!r}; give each stream its own table"
    )
