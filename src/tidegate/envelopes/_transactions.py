"""Reads Debezium's transaction metadata: the transaction of an event, and how many events each transaction has."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tidegate.core.transactions import Ending, Member
from tidegate.envelopes import _connect as connect
from tidegate.envelopes import _origin as origin

STREAMED = ("c", "u", "d", "t")
FIELD = b'"transaction":'
WRITTEN = re.compile(FIELD + rb'{"id":"([^"\\]+)","total_order":(\d+),"data_collection_order":\d+}')
# The connector of PostgreSQL puts the place of each event behind the number of its transaction.
POSTGRESQL = re.compile(r"(\d+):\d+")


def member_of(value: bytes | None, takes: Callable[[str], bool] | None = None) -> Member | None:
    """The place of a whole event; None for what is no streamed event, or of a table that nobody takes.

    Args:
        takes: asked of tables by their whole names; None takes all.
    """
    if value is None:
        return None
    if takes is None and (quick := _quick(value)) is not None:
        return quick
    message = connect.loaded(value)
    payload = message.get("payload", message) if isinstance(message, dict) else None
    if not isinstance(payload, dict) or payload.get("op") not in STREAMED:
        return None
    if takes is not None and (table := origin.table_of(message)) is not None and not takes(table):
        return None
    transaction = payload.get("transaction")
    return (
        member(transaction.get("id"), transaction.get("total_order")) if isinstance(transaction, dict) else Member("")
    )


def _quick(value: bytes) -> Member | None:
    """The same without reading the whole message, as Kafka Connect writes it, where nothing can be mistaken for it."""
    found = WRITTEN.match(value, value.rfind(FIELD)) if value.count(FIELD) == 1 else None
    return member(found[1].decode(), found[2].decode()) if found else None


def member(name: object, order: object) -> Member:
    """A place, of a transaction's name and a number, which some converters write as a text."""
    number = str(order)
    return Member(transaction(name), int(number) if number.isdigit() else 0)


def ending_of(value: bytes | None) -> Ending | None:
    """What a message of the topic of transactions says; None for one that is no end."""
    message = connect.loaded(value)
    payload = message.get("payload", message) if isinstance(message, dict) else None
    if not isinstance(payload, dict) or payload.get("status") != "END" or "id" not in payload:
        return None
    counts: list[Any] = payload.get("data_collections") or []
    events = {str(each["data_collection"]): int(each["event_count"]) for each in counts}
    return Ending(transaction(payload["id"]), events)


def transaction(name: object) -> str:
    """The name that all messages of a transaction share; empty for none.

    Example:
        >>> transaction("571:53195829"), transaction("0e4d5dcd-a33b-11ea-80f1-02010a22a99e:10")
        ('571', '0e4d5dcd-a33b-11ea-80f1-02010a22a99e:10')
    """
    text = name if isinstance(name, str) else ""
    found = POSTGRESQL.fullmatch(text)
    return found[1] if found else text


def takes(stated: str | None, only: str | None, table: str) -> bool:
    """Whether events of a table are read, by the table that an envelope names or the one that all events are of.

    Args:
        table: its name, of which an end tells less than an event does.
    """
    if stated is not None:
        return origin.is_called(stated, table) or stated.endswith(f".{table}")
    return only is not None and (only == table or only.endswith(f".{table}") or table.endswith(f".{only}"))
