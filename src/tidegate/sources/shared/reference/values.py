"""Converts values of files to Arrow values of a column's exact type; a value that does not fit is an error.

Never rounds unless `round: true` is set, drops a digit, or takes a damaged value for NULL.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidegate.core.canonical_text import EXACTLY
from tidegate.core.schema import BIGINT, BOOLEAN, DOUBLE, TIMESTAMPTZ, Kind, Type, decimal
from tidegate.sources.shared.reference.json_text import scalar, written
from tidegate.sources.shared.reference.patterns import parser, zone_of

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
MOMENT = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d*))?)?(?: ?(Z|z|UTC|[+-]\d{2}(?::?\d{2}(?::?\d{2})?)?))?)?",
    re.ASCII,
)
FARTHEST = timedelta(hours=18)
# Arrow takes more than these for a number or a time, such as `0x1F` and `2025-01-01 10`.
USUAL = {
    Kind.INTEGER: r"^[+-]?[0-9]+$",
    Kind.DATE: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    Kind.TIMESTAMP: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?$",
    Kind.TIMESTAMPTZ: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$",
}
DAY = re.compile(r"\d{4}-\d{1,2}-\d{1,2}", re.ASCII)
CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d*))?)?", re.ASCII)
SPECIAL = re.compile(r"nan|[+-]?inf(inity)?", re.IGNORECASE | re.ASCII)
UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
WORDS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
ROUNDED = Context(prec=38, rounding=ROUND_HALF_UP)
SURE_DIGITS = 15
SURE = 10**SURE_DIGITS
"""Digits that a double always keeps."""
NUMBERS = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT})
SHOWN = {
    BIGINT: "-?(0|[1-9][0-9]*)",
    decimal(38, 0): "-?(0|[1-9][0-9]*)",
    DOUBLE: "0|-0|[1-9][0-9]{0,14}|-[1-9][0-9]{0,13}|-?(0|[1-9][0-9]*)?[.][0-9]+"
    "|-?(0|[1-9][0-9]*)([.][0-9]*)?[eE][+-]?[0-9]+",
    TIMESTAMPTZ: "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}[T ][0-9:.]+ ?(Z|z|UTC|[+-][0-9:]+)",
}
"""The texts that show a column to be of a type, where the type takes others, too."""


UNLIKE = (
    "State the column's type: `source: {{columns: {{{name}: text}}}}` keeps every value as it is written, any other "
    "type reads it by the rules in docs/sources/files.md."
)
"""What helps where an inferred type would change a value."""


class ValueRefused(ValueError):
    """A column has a value that its type does not hold; the message names no value.

    Args:
        hint: what to do; empty for what helps with any file.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRules:
    """How values are written in a text file: patterns of times, None for ISO 8601; the zone of those that name none.

    Args:
        decimal, thousands: the marks in numbers.
        rounds: digits that a type does not hold are rounded away, half up.
        base64: binary values are base64, as in JSON; else the text's own bytes.
        words: of booleans, in small letters.
    """

    date: str | None = None
    timestamp: str | None = None
    timestamptz: str | None = None
    zone: tzinfo = UTC
    decimal: str = "."
    thousands: str = ""
    rounds: bool = False
    base64: bool = False
    words: Mapping[str, bool] = field(default_factory=lambda: WORDS)

    @classmethod
    def of(cls, options: Mapping[str, str], *, base64: bool = False) -> TextRules:
        """From a reader's options, whose names are in small letters."""
        words = dict(WORDS)
        for name, meaning in (("true_values", True), ("false_values", False)):
            if name in options:
                words = {word: other for word, other in words.items() if other is not meaning}
                words |= {word.lower(): meaning for word in several(options[name])}
        return cls(
            words=words,
            date=options.get("dateformat"),
            timestamp=options.get("timestampntzformat"),
            timestamptz=options.get("timestampformat"),
            zone=zone_of(options.get("timezone", "UTC")),
            decimal=options.get("decimal", "."),
            thousands=options.get("thousands", ""),
            rounds=options.get("round", "false").lower() == "true",
            base64=base64,
        )

    @property
    def vectorised(self) -> frozenset[Kind]:
        """The types whose usual texts Arrow parses exactly."""
        numbers = {Kind.INTEGER, Kind.DECIMAL} if (self.decimal, self.thousands) == (".", "") else set()
        times = {Kind.DATE: self.date, Kind.TIMESTAMP: self.timestamp, Kind.TIMESTAMPTZ: self.timestamptz}
        return frozenset(numbers | {kind for kind, pattern in times.items() if pattern is None})


def arrow_type(kind: Type) -> Any:
    """The Arrow type that holds a column's stored values."""
    stored = kind.stored
    match stored.kind:
        case Kind.INTEGER:
            return pa.int32() if stored.bits == 32 else pa.int64()
        case Kind.DECIMAL:
            return pa.decimal128(stored.precision, stored.scale)
        case Kind.TIMESTAMPTZ:
            return pa.timestamp("us", "UTC")
    return TYPES.get(stored.kind, pa.string())


TYPES = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.FLOAT: pa.float64(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.BINARY: pa.binary(),
}


def of_texts(texts: Any, kind: Type, rules: TextRules) -> Any:
    """The values of a column of texts.

    Raises:
        ValueError, ArithmeticError, LookupError: a text that is no value of the type.
    """
    wanted = arrow_type(kind)
    if pa.types.is_string(wanted) and kind.kind not in (Kind.UUID, Kind.TIME):
        return texts
    if kind.kind in rules.vectorised and pc.all(pc.match_substring_regex(texts, _usual(kind))).as_py() is not False:
        try:
            return pc.cast(texts, wanted)
        except pa.ArrowInvalid:
            pass  # written in a way that Arrow does not know, or wrong: value by value
    parse = _parser(kind, rules)
    return pa.array([None if text is None else parse(text) for text in texts.to_pylist()], wanted)


def of_untyped(texts: Any, kind: Type, rules: TextRules) -> Any:
    """The values of a column whose type other values have shown, and nobody has stated.

    Raises:
        ValueError, ArithmeticError, LookupError: also a text that such a type would change.
    """
    shown = SHOWN.get(kind) if kind != BOOLEAN else _shown(rules)
    if shown is None or (kind.kind is Kind.TIMESTAMPTZ and rules.timestamptz is not None):
        return of_texts(texts, kind, rules)
    plain = texts
    if kind.kind in NUMBERS and (rules.decimal, rules.thousands) != (".", ""):
        plain = pa.array(
            [None if text is None else _plain_number(text, rules) for text in texts.to_pylist()], pa.string()
        )
    if pc.all(pc.match_substring_regex(plain, f"^(?:{shown})$")).as_py() is False:
        raise ValueError("a text that the type would change")
    if kind.kind is Kind.FLOAT:
        long = plain.filter(pc.greater(pc.utf8_length(plain), SURE_DIGITS))
        if not all(map(_kept, long.drop_null().to_pylist())):
            raise ValueError("a number with digits that a double loses")
    return of_texts(texts, kind, rules)


def several(text: str) -> list[str]:
    """The texts of an option that takes one or a list of them."""
    try:
        found = json.loads(text)
    except ValueError:
        return [text]
    return found if isinstance(found, list) else [text]


def _shown(rules: TextRules) -> str:
    """The words that show a column to be of booleans: those that a number can be do not, nor `t` and `f` by itself."""
    unstated = {word for word in ("t", "f") if WORDS[word] is rules.words.get(word) and _usual_words(rules, word)}
    words = (word for word in rules.words if word not in unstated and not NUMBER.fullmatch(word))
    return "(?i:" + "|".join(map(re.escape, words)) + ")"


def _usual_words(rules: TextRules, word: str) -> bool:
    """Whether the words of that meaning are those that no option states."""
    of = {each for each, meaning in rules.words.items() if meaning is WORDS[word]}
    return of == {each for each, meaning in WORDS.items() if meaning is WORDS[word]}


def _kept(number: str) -> bool:
    """Whether a double keeps the digits of a number; with an exponent they are not looked at."""
    digits = re.sub("^-?[0.]*|[^0-9]", "", number)
    if len(digits) <= SURE_DIGITS or re.search("[eE]", number):
        return True
    own, kept = (Decimal(each).quantize(Decimal("1e-18"), context=ROUNDED) for each in (number, repr(float(number))))
    return own == kept


def _usual(kind: Type) -> str:
    """The texts that Arrow converts exactly; a decimal with more digits than its type has it takes for another one."""
    if kind.kind is not Kind.DECIMAL:
        return USUAL[kind.kind]
    before = f"[0-9]{{1,{kind.precision - kind.scale}}}" if kind.precision > kind.scale else "0"
    return f"^[+-]?{before}(\\.[0-9]{{1,{kind.scale}}})?$" if kind.scale else f"^[+-]?{before}$"


def of_arrow(values: Any, kind: Type, rules: TextRules) -> Any:  # noqa: PLR0911 - one answer a type
    """The values of a column of a typed format.

    Raises:
        ValueError, ArithmeticError, LookupError: a value that the type does not hold exactly.
    """
    wanted = arrow_type(kind)
    values = _plain(values, wanted, rules)
    has = values.type
    if pa.types.is_string(has) or pa.types.is_large_string(has) or pa.types.is_string_view(has):
        return of_texts(pc.cast(values, pa.string()), kind, rules)
    if has == wanted:
        return values
    if pa.types.is_floating(has) != pa.types.is_floating(wanted) and _is_number(has) and _is_number(wanted):
        found = [None if each is None else _same_number(each, wanted) for each in values.to_pylist()]
        return pa.array(found, wanted)
    if pa.types.is_string(wanted):
        return pa.array([None if value is None else _as_text(value, has) for value in values.to_pylist()], wanted)
    if pa.types.is_timestamp(has) and pa.types.is_timestamp(wanted):
        moments = _micros(values) if rules.rounds and has.unit == "ns" else pc.cast(values, pa.timestamp("us", has.tz))
        return pc.assume_timezone(moments, "UTC") if has.tz is None and wanted.tz else pc.cast(moments, wanted)
    if pa.types.is_decimal(wanted):
        parse = _parser(kind, rules)
        return pa.array([None if each is None else parse(str(each)) for each in values.to_pylist()], wanted)
    return pc.cast(values, wanted)


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind))


def _same_number(value: Any, wanted: Any) -> Any:
    """The number as another type. Raises ValueError where that is another number, or may be one."""
    if pa.types.is_floating(wanted):
        found: Any = float(value)
        back: Any = int(found) if isinstance(value, int) else Decimal(repr(found))
        sure = isinstance(value, int) or abs(value) < SURE
    elif pa.types.is_decimal(wanted):
        sure = abs(value) < SURE  # not with NaN
        found = Decimal(repr(value)).quantize(Decimal(1).scaleb(-wanted.scale), context=ROUNDED) if sure else value
        back = float(found)
    else:
        sure, found = value.is_integer(), int(value) if value.is_integer() else 0
        back = float(found)
    if not sure or back != value:
        raise ValueError("a number that is another one in this type")
    return found


def _plain(values: Any, wanted: Any, rules: TextRules) -> Any:
    """The values without a wrapper of Arrow's; of times of day and durations texts, or their numbers."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if isinstance(values.type, pa.UuidType):
        stored = values.storage.to_pylist()
        return pa.array([None if each is None else str(uuid.UUID(bytes=each)) for each in stored], pa.string())
    values = values.storage if isinstance(values.type, pa.BaseExtensionType) else values
    if pa.types.is_time(values.type) and pa.types.is_string(wanted):
        return _clocks(values, rules)
    if pa.types.is_duration(values.type) or pa.types.is_time(values.type):
        return values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return values


def _clocks(values: Any, rules: TextRules) -> Any:
    """Times of day as texts, with every digit that they have."""
    unit = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[values.type.unit]
    digits = len(str(unit)) - 1

    def text(value: int) -> str:
        seconds, rest = divmod(value, unit)
        if rest % 1000 and digits == 9 and not rules.rounds:
            raise ValueError("digits beyond microseconds")
        fraction = f"{rest:0{digits}d}"[:6].ljust(6, "0") if digits else "000000"
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction}"

    stored = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64()).to_pylist()
    return pa.array([None if each is None else text(each) for each in stored], pa.string())


def _micros(values: Any) -> Any:
    """Nanoseconds without their last three digits, as documented for ORC."""
    cut = [None if each is None else each // 1000 for each in pc.cast(values, pa.int64()).to_pylist()]
    return pc.cast(pa.array(cut, pa.int64()), pa.timestamp("us", values.type.tz))


def _parser(kind: Type, rules: TextRules) -> Callable[[str], Any]:  # noqa: C901, PLR0911 - one answer a type
    match kind.kind:
        case Kind.INTEGER:
            return lambda text: _integer(text, rules)
        case Kind.DECIMAL:
            return lambda text: _decimal(text, kind.scale, rules)
        case Kind.BOOLEAN:
            return lambda text: rules.words[text.lower()]
        case Kind.DATE:
            return lambda text: _date(text, rules)
        case Kind.TIMESTAMP:
            return lambda text: _naive(_moment(text, rules.timestamp, rules))
        case Kind.TIMESTAMPTZ:
            return lambda text: _aware(_moment(text, rules.timestamptz, rules), rules.zone)
        case Kind.TIME:
            return lambda text: _clock(text, rules)
        case Kind.UUID:
            return _uuid
        case Kind.FLOAT:
            return lambda text: as_double(text, rules)
        case Kind.BINARY if rules.base64:
            return lambda text: base64.b64decode(text, validate=True)
        case Kind.BINARY:
            return str.encode
    return str


def _plain_number(text: str, rules: TextRules) -> str:
    """A number with a point and without marks between thousands."""
    if rules.thousands and rules.thousands in text:
        whole: Any = re.match(r"[+-]?([^eE" + re.escape(rules.decimal) + "]*)", text)
        first, *groups = whole[1].split(rules.thousands)
        if (
            not 1 <= len(first) <= 3
            or any(len(group) != 3 for group in groups)
            or rules.thousands in text[whole.end() :]
        ):
            raise ValueError("thousands separators in the wrong place")
        text = text.replace(rules.thousands, "")
    if rules.decimal != ".":
        if "." in text:
            raise ValueError("a point in a number with a different decimal separator")
        text = text.replace(rules.decimal, ".")
    return text


def _number(text: str, rules: TextRules) -> Decimal:
    plain = _plain_number(text, rules)
    if not NUMBER.fullmatch(plain):
        raise ValueError("not a number")
    return Decimal(plain)


def _integer(text: str, rules: TextRules) -> int:
    found = _number(text, rules)
    return int(found.quantize(Decimal(1), context=EXACTLY))


def _decimal(text: str, scale: int, rules: TextRules) -> Decimal:
    found = _number(text, rules)
    return found.quantize(Decimal(1).scaleb(-scale), context=ROUNDED if rules.rounds else EXACTLY)


def as_double(text: str, rules: TextRules) -> float:
    """The number of a text. Raises ValueError: it is none, or none that a double holds."""
    if SPECIAL.fullmatch(text):
        return float(text)
    found = _number(text, rules)
    value = float(found)
    if value in (float("inf"), float("-inf")) or (found and not value):
        raise ValueError("a number beyond the range of a double")
    if not re.search("[.eE]", _plain_number(text, rules)) and int(value) != int(found):
        raise ValueError("an integer that a double cannot represent")
    return value


def _date(text: str, rules: TextRules) -> date:
    if rules.date is None and not DAY.fullmatch(text):
        raise ValueError("not a date")
    return _moment(text, rules.date, rules).date()


def _naive(moment: datetime) -> datetime:
    if moment.tzinfo is not None:
        raise ValueError("a time with a time zone in a column without one")
    return moment


def _aware(moment: datetime, zone: tzinfo) -> datetime:
    if moment.tzinfo is not None:
        return moment.astimezone(UTC)
    found = moment.replace(tzinfo=zone).astimezone(UTC)
    if found.astimezone(zone).replace(tzinfo=None) != moment:
        raise ValueError("a local time that its time zone skips")
    return found


def _moment(text: str, pattern: str | None, rules: TextRules) -> datetime:
    if pattern is not None:
        return parser(pattern)(text)
    found = MOMENT.fullmatch(text)
    if found is None:
        raise ValueError("not a date or time")
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    micros, above = _fraction(fraction, rules)
    days, times = (int(year), int(month), int(day)), (int(hour or 0), int(minute or 0), int(second or 0))
    made = datetime(*days, *times, micros) + timedelta(microseconds=above)  # noqa: DTZ001 - the zone follows
    if not zone:
        return made
    found_zone = zone_of(zone)
    if abs(found_zone.utcoffset(None) or timedelta()) > FARTHEST:
        raise ValueError("a UTC offset that is out of range")
    return made.replace(tzinfo=found_zone)


def _clock(text: str, rules: TextRules) -> str:
    found = CLOCK.fullmatch(text)
    if found is None:
        raise ValueError("not a time")
    hour, minute, second, fraction = found.groups()
    micros, above = _fraction(fraction, rules)
    made = datetime(2000, 1, 1, int(hour), int(minute), int(second or 0), micros)  # noqa: DTZ001 - a time of no day
    rounded = made + timedelta(microseconds=above)
    if rounded.day > 1:
        raise ValueError("a time that rounds to the next day")
    return rounded.time().isoformat("microseconds")


def _fraction(digits: str | None, rules: TextRules) -> tuple[int, int]:
    """Microseconds, and one more where the digits behind them are rounded up."""
    text = (digits or "").ljust(6, "0")
    if text[6:].strip("0") and not rules.rounds:
        raise ValueError("digits beyond microseconds")
    return int(text[:6]), int(text[6:7] >= "5")


def _uuid(text: str) -> str:
    if not UUID.fullmatch(text):
        raise ValueError("not a uuid")
    return text.lower()


def _as_text(value: Any, kind: Any) -> str:
    """A value of a typed file whose column is kept as text or JSON."""
    if pa.types.is_nested(kind):
        return written(value, kind)
    if isinstance(value, datetime):
        return value.isoformat(" ").removesuffix("+00:00")
    return value.hex() if isinstance(value, bytes) else str(value) if isinstance(value, date) else scalar(value)
