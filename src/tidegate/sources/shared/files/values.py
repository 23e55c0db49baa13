"""Tests in Python whether a text is exactly a value of a type, by the rules of `dialects/spark/exact_text.py`.

Spark reports the file and column of an invalid value, but not the line; to find it, the file is read here.
"""

from __future__ import annotations

import json
import math
import re
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation, localcontext
from itertools import pairwise
from typing import Any

from tidegate.core.schema import TEXT, Kind, Type
from tidegate.dialects.spark.exact_text import (
    ANY_DIGITS,
    CLOCK,
    DAY,
    FARTHEST,
    LONGEST_DOUBLE,
    MICROS,
    NUMBER,
    OFFSET,
    PLAIN_FRACTION,
    PLAIN_WHOLE,
    SPECIAL,
    UUID,
    TextRules,
)
from tidegate.sources.shared.deep import deep


def fits(text: str, kind: Type, rules: TextRules) -> bool | None:  # noqa: C901, PLR0911 - one answer a kind
    """Whether the text is exactly a value; None where only Spark can tell, as by its own date patterns."""
    match kind.kind:
        case Kind.BOOLEAN:
            return text.lower() in (*rules.true, *rules.false)
        case Kind.INTEGER:
            return _whole(_number(text, rules), kind.bits)
        case Kind.DECIMAL:
            return _decimal(_number(text, rules), kind, rounds=rules.rounds)
        case Kind.FLOAT:
            return text.lower() in SPECIAL or _float(_number(text, rules), kind.bits)
        case Kind.DATE:
            return None if rules.date_format else re.fullmatch(DAY, text) is not None and _is_day(text)
        case Kind.TIMESTAMP:
            return None if rules.timestamp_ntz_format else _moment(text, rules, "") is not None
        case Kind.TIMESTAMPTZ:
            if rules.timestamp_format or rules.zone != "UTC":
                return None
            return _moment(text, rules, f"{OFFSET}?") is not None
        case Kind.TIME:
            found = _moment(f"2000-01-01 {text}", rules, "")
            return found is not None and found.date() == date(2000, 1, 1)
        case Kind.UUID:
            return re.fullmatch(UUID, text) is not None
        case Kind.TEXT | Kind.JSON | Kind.RESCUED:
            return True
        case _:
            return None


def shows(text: str, kind: Type, rules: TextRules) -> bool | None:
    """Whether the type would be inferred of such a text; None where only Spark can tell."""
    match kind.kind:
        case Kind.BOOLEAN:
            return any(text.lower() in words for words in rules.showing)
        case Kind.INTEGER | Kind.DECIMAL:
            number = _number(text, rules)
            return number is not None and re.fullmatch(PLAIN_WHOLE, number) is not None and fits(text, kind, rules)
        case Kind.FLOAT:
            number = _number(text, rules) or ""
            if re.fullmatch(PLAIN_WHOLE, number):
                return len(number) <= LONGEST_DOUBLE
            digits = len(re.sub(r"^-?[0.]*|[^0-9]", "", number))
            sure = digits <= LONGEST_DOUBLE or re.search("[eE]", number) is not None
            return re.fullmatch(PLAIN_FRACTION, number) is not None and (fits(text, kind, rules) if sure else None)
        case Kind.TIMESTAMPTZ if re.fullmatch(f"{DAY}([T ]{CLOCK % ANY_DIGITS})?", text):
            return False if rules.timestamp_format is None else None
    return fits(text, kind, rules)


def _number(text: str, rules: TextRules) -> str | None:
    if (rules.decimal, rules.thousands) != (".", ""):
        mark, thousands = re.escape(rules.decimal), re.escape(rules.thousands)
        whole = f"([0-9]+|[0-9]{{1,3}}({thousands}[0-9]{{3}})+)" if thousands else "[0-9]+"
        if not re.fullmatch(f"[+-]?({whole}({mark}[0-9]*)?|{mark}[0-9]+)([eE][+-]?[0-9]+)?", text):
            return None
        digits = text.replace(rules.thousands, "") if thousands else text
        text = digits.replace(rules.decimal, ".")
    return text if re.fullmatch(NUMBER, text) else None


def _exactly(number: str | None) -> tuple[int, int] | None:
    """A number as a whole one and a power of ten, without zeros at its end."""
    if number is None:
        return None
    sign, digits, exponent = Decimal(number).as_tuple()
    value = int("".join(map(str, digits))) * (-1 if sign else 1)
    power = int(exponent)
    while value and value % 10 == 0:
        value, power = value // 10, power + 1
    return (value, power) if value else (0, 0)


def _whole(number: str | None, bits: int) -> bool:
    found = _exactly(number)
    if found is None or found[1] < 0 or found[1] > 40:
        return False
    value, most = found[0] * int(10 ** found[1]), int(2 ** (bits - 1))
    return -most <= value < most


def _decimal(number: str | None, kind: Type, *, rounds: bool) -> bool:
    found = _exactly(number)
    if found is None or number is None:
        return False
    value, power = found
    if rounds and -power > kind.scale:
        with localcontext(prec=2000):
            try:
                rounded = Decimal(number).quantize(Decimal(1).scaleb(-kind.scale), rounding="ROUND_HALF_UP")
            except InvalidOperation:
                return False
        return abs(rounded) < Decimal(10) ** (kind.precision - kind.scale)
    return (-power <= kind.scale and len(str(abs(value))) + power <= kind.precision - kind.scale) or not value


def _float(number: str | None, bits: int) -> bool:
    if number is None:
        return False
    value = float(number)
    if bits == 32 and math.isfinite(value):
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            return False
    if math.isinf(value) or (value == 0 and re.search("[1-9]", re.split("[eE]", number)[0])):
        return False
    short = 15 if bits == 64 else 6
    return re.search("[.eE]", number) is not None or len(number) <= short or int(value) == int(number)


def _is_day(text: str) -> bool:
    try:
        date(*map(int, text.split("-")))
    except ValueError:
        return False
    return True


def _moment(text: str, rules: TextRules, zone: str) -> datetime | None:
    """The moment, in UTC where there is a zone; None for none of the years 1 to 9999, as it stands there or moved."""
    digits = ANY_DIGITS if rules.rounds else MICROS
    found = re.fullmatch(f"(?P<day>{DAY})([T ](?P<clock>{CLOCK % digits})(?P<zone>{zone}))?", text)
    if not found:
        return None
    clock, _, fraction = (found["clock"] or "0:00").partition(".")
    above = int(rules.rounds and fraction[6:7] >= "5")
    try:
        wall = datetime(*map(int, found["day"].split("-")), *map(int, clock.split(":")))  # type: ignore[arg-type]  # noqa: DTZ001 - the zone follows
        return wall + timedelta(microseconds=int(fraction[:6].ljust(6, "0")) + above) - _offset(found["zone"] or "")
    except (ValueError, OverflowError):
        return None


def _offset(zone: str) -> timedelta:
    """By how much a zone differs from UTC. Raises ValueError for more than any does."""
    if not (digits := re.sub("[^0-9]", "", zone)):
        return timedelta()
    hours, minutes, seconds = (int(digits[at : at + 2] or 0) for at in (0, 2, 4))
    away = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if away > timedelta(seconds=FARTHEST):
        raise ValueError("a zone that is too far from UTC")
    return -away if "-" in zone else away


class Number(str):
    """A number of a document, as it stands there."""

    __slots__ = ()


def infers(value: object, kind: Type) -> bool:
    """Whether the type would be inferred of such a value of a document: a text is neither number nor boolean."""
    if kind.kind is Kind.ARRAY:
        return isinstance(value, list) and all(each is None or infers(each, kind.element or TEXT) for each in value)
    return isinstance(value, bool if kind.kind is Kind.BOOLEAN else Number)


def document(line: str) -> dict[str, Any]:
    """The object of a line. Raises ValueError."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if any(one == other for one, other in pairwise(sorted(name for name, _ in pairs))):
            raise ValueError("it has a duplicate name")
        return dict(pairs)

    def never(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    def parsed() -> object:
        return json.loads(line, parse_float=Number, parse_int=Number, parse_constant=never, object_pairs_hook=once)

    found = deep(parsed)
    if not isinstance(found, dict):
        raise ValueError("it is not an object")  # noqa: TRY004 - as json's own
    return found
