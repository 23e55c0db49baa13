"""Recognizes message schemas that are already known, so that they are not parsed again for every message.

Used for messages that carry their schema. A message matches only if it has the complete schema.

Source: Kafka Connect's JsonConverter, which writes `{"schema":…,"payload":…}` without spaces, the same schema in every
message of a table: mostly longer than the row, and many times slower to parse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.log import VALUE
from tidegate.dialects.spark import Spark
from tidegate.envelopes import _connect as connect

BEGIN, MIDDLE = b'{"schema":', b',"payload":'
MOST = 4
"""So many schemas are looked for in each message; of older ones there are few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSchema:
    """A schema that messages carry.

    Args:
        prefix: what stands in such a message before its payload.
        fields: those of the row, by name, as Connect writes them.
    """

    prefix: bytes = field(repr=False)
    fields: Mapping[str, Mapping[str, Any]] = field(repr=False)

    def way(self, column: str) -> connect.FieldEncoding:
        """How the values of a column are written."""
        field = self.fields.get(column, {})
        parameters = field.get("parameters") or {}
        return connect.FieldEncoding(
            type=field.get("type"),
            name=connect.short(field.get("name")),
            scale=parameters.get("scale"),
            length=parameters.get("length"),
        )


def known(values: Iterable[bytes | None], *parts: str, most: int = MOST) -> tuple[KnownSchema, ...]:
    """The schemas that these messages carry, the newest last; that of the newest first.

    Args:
        parts: as of `_connect.fields_of`.
    """
    found: list[KnownSchema] = []
    for value in reversed(list(values)):
        if len(found) < most and value is not None and not any(value.startswith(each.prefix) for each in found):
            found += _known(value, parts)
    return tuple(found)


def number(schemas: Sequence[KnownSchema]) -> str:
    """The expression of which of these schemas a message carries, from 0 on; NULL for another or none."""
    if not schemas:
        return "CAST(NULL AS int)"
    text = f"string({VALUE})"
    # A payload that is an object, whose end and that of the message are its last two marks.
    cases = (
        f"WHEN startswith({text}, {Spark().string(each.prefix.decode() + '{')}) THEN {number}"
        for number, each in enumerate(schemas)
    )
    return f"CASE WHEN NOT endswith({text}, '}}}}') THEN NULL {' '.join(cases)} END"


def content(schemas: Sequence[KnownSchema], number: str) -> str:
    """The bytes of a message without its schema, NULL where that is none of these."""
    lengths = " ".join(f"WHEN {place} THEN {len(each.prefix)}" for place, each in enumerate(schemas))
    begin = f"CASE {number} {lengths} END"
    return f"substring({VALUE}, {begin} + 1, length({VALUE}) - {begin} - 1)"


def _known(value: bytes, parts: Sequence[str]) -> list[KnownSchema]:
    end = value.find(MIDDLE) if value.startswith(BEGIN) else -1
    while end >= 0:
        if isinstance(schema := connect.loaded(value[len(BEGIN) : end]), dict):
            fields = connect.fields_of({"schema": schema, "payload": None}, *parts)
            named = {each["field"]: each for each in fields or () if isinstance(each.get("field"), str)}
            return [KnownSchema(prefix=value[: end + len(MIDDLE)], fields=named)] if fields is not None else []
        end = value.find(MIDDLE, end + 1)
    return []
