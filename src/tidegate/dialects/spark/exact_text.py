"""Spark expressions that convert text from CSV, JSON and folder names to a column's type: exactly, or not at all.

The rules are those in docs/sources/files.md, "How a text becomes a value"; `sources/shared/files/values.py` applies the
same rules in Python to find the line of an invalid value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegate.core.schema import TEXT, Kind, Type
from tidegate.dialects.spark import LONG_STRINGS, Spark
from tidegate.dialects.spark.json_text import cannot_be_kept, marked, unmarked

SPECIAL = ("nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity")
TRUE, FALSE = ("true", "t", "1"), ("false", "f", "0")
NUMBER = r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,4})?"
WHOLE = r"[+-]?[0-9]+([.]0*)?"
PLAIN_WHOLE = "-?(0|[1-9][0-9]*)"
PLAIN_FRACTION = "-?(0|[1-9][0-9]*)?[.][0-9]+|-?(0|[1-9][0-9]*)([.][0-9]*)?[eE][+-]?[0-9]+"
"""Numbers of which a type of numbers is inferred: one that is written otherwise, such as `007`, may be no number."""
DAY = "(?!0000)[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
CLOCK = "[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.]%s)?)?"
OFFSET = "( ?(Z|z|UTC|[+-][0-9]{2}(:?[0-9]{2}(:?[0-9]{2})?)?))"
UUID = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
MICROS, ANY_DIGITS = "[0-9]{0,6}0*", "[0-9]*"
HALF = 2**63
FARTHEST = 18 * 3600
"""Seconds by which a zone can differ from UTC."""
LONGEST_DOUBLE = 15
"""Significant digits that a double always keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRules:
    """How the texts of one source are written.

    Args:
        decimal, thousands: the marks in a number; no thousands mark unless given.
        rounds: round what has too many digits behind the point, instead of refusing it.
        date_format, timestamp_format, timestamp_ntz_format: Spark's datetime patterns; ISO 8601 without one.
        zone: of times without one in a column with time zone.
        base64: binary values are base64, as in JSON; else the text's own bytes.
        true, false: the words of booleans, in small letters.
    """

    true: tuple[str, ...] = TRUE
    false: tuple[str, ...] = FALSE
    decimal: str = "."
    thousands: str = ""
    rounds: bool = False
    date_format: str | None = None
    timestamp_format: str | None = None
    timestamp_ntz_format: str | None = None
    zone: str = "UTC"
    base64: bool = False

    @property
    def showing(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words of which a column of booleans is inferred: no numbers, nor `t` and `f`, unless they are stated."""
        true, false = (
            tuple(word for word in words if not re.fullmatch(NUMBER, word) and (words != usual or len(word) > 1))
            for words, usual in ((self.true, TRUE), (self.false, FALSE))
        )
        return true, false


def exact(text: str, kind: Type, rules: TextRules) -> str:  # noqa: C901, PLR0911 - one answer a kind
    """The value of a text as the kind's stored type; NULL for NULL and for a text that does not fit exactly."""
    match kind.kind:
        case Kind.BOOLEAN:
            return _boolean(text, rules.true, rules.false)
        case Kind.INTEGER:
            return _integer(_plain(text, rules), kind)
        case Kind.DECIMAL:
            return _decimal(_plain(text, rules), kind, rounds=rules.rounds)
        case Kind.FLOAT:
            return _float(text, _plain(text, rules), kind)
        case Kind.DATE:
            return _date(text, rules)
        case Kind.TIMESTAMP:
            return _timestamp(text, rules)
        case Kind.TIMESTAMPTZ:
            return _instant(text, rules)
        case Kind.TIME:
            return _time(text, rules)
        case Kind.UUID:
            return f"CASE WHEN {_like(text, UUID)} THEN lower({text}) END"
        case Kind.BINARY:
            return f"try_to_binary({text}, 'base64')" if rules.base64 else f"CAST({text} AS binary)"
        case Kind.ARRAY:
            return _array(text, kind.element or TEXT, rules)
        case _:
            return text


def kind_of(text: str, rules: TextRules) -> str:
    """One letter for what a text can be, for guessing a column's type; see `sources.shared.files.types.guessed`.

    `b`oolean, `i`nteger that a double keeps, too, `j` one of 64 bits, `l` one of 38 digits, `n`umber that a double
    keeps, `d`ate, `t`imestamp, `z`oned timestamp, `s`tring; NULL for NULL. A number that would be written otherwise,
    such as `007`, is a string.
    """
    number = _plain(text, rules)
    instant = TextRules(timestamp_format=rules.timestamp_format, zone=rules.zone)
    zoned = _instant(text, instant) if rules.timestamp_format else _with_offset(text, MICROS)
    return (
        f"CASE WHEN {text} IS NULL THEN NULL WHEN {_boolean(text, *rules.showing)} IS NOT NULL THEN 'b' "
        f"WHEN {_like(number, PLAIN_WHOLE)} THEN CASE WHEN length({number}) <= {LONGEST_DOUBLE} THEN 'i' "
        f"WHEN try_cast({number} AS bigint) IS NOT NULL THEN 'j' "
        f"WHEN try_cast({number} AS decimal(38,0)) IS NOT NULL THEN 'l' ELSE 's' END "
        f"WHEN {_like(number, PLAIN_FRACTION)} "
        f"THEN if({_kept(number)} AND {_float(text, number, Type(kind=Kind.FLOAT, bits=64))} IS NOT NULL, 'n', 's') "
        f"WHEN {_date(text, rules)} IS NOT NULL THEN 'd' "
        f"WHEN {_timestamp(text, TextRules(timestamp_ntz_format=rules.timestamp_ntz_format))} IS NOT NULL THEN 't' "
        f"WHEN {zoned} IS NOT NULL THEN 'z' ELSE 's' END"
    )


def inferred(text: str, kind: Type, rules: TextRules) -> str:
    """As `exact`, of a column whose type was inferred: NULL, too, for a text of which it would not have been.

    What is inferred must not depend on which values came first.
    """
    number, value = _plain(text, rules), exact(text, kind, rules)
    match kind.kind:
        case Kind.BOOLEAN:
            return _boolean(text, *rules.showing)
        case Kind.INTEGER | Kind.DECIMAL:
            return f"CASE WHEN {_like(number, PLAIN_WHOLE)} THEN try_cast({number} AS {kind.spark}) END"
        case Kind.FLOAT:
            whole = f"{_like(number, PLAIN_WHOLE)} AND length({number}) <= {LONGEST_DOUBLE}"
            return f"CASE WHEN {whole} OR {_like(number, PLAIN_FRACTION)} AND {_kept(number)} THEN {value} END"
        case Kind.TIMESTAMPTZ if not rules.timestamp_format:
            return f"CASE WHEN {_like(text, f'{DAY}[T ][0-9:.]+{OFFSET}')} THEN {value} END"
    return value


def _boolean(text: str, true: tuple[str, ...], false: tuple[str, ...]) -> str:
    cases = [(words, word) for words, word in ((true, "true"), (false, "false")) if words]
    listed = ((", ".join(map(Spark().string, words)), word) for words, word in cases)
    made = " ".join(f"WHEN lower({text}) IN ({words}) THEN {word}" for words, word in listed)
    return f"CASE {made} END" if made else "CAST(NULL AS boolean)"


def _kept(number: str) -> str:
    """Whether a double keeps every digit of a number with a fraction; of one with an exponent none is looked at."""
    short = f"length(regexp_replace({number}, '^[+-]?[0.]*|[^0-9]', '')) <= {LONGEST_DOUBLE}"
    double = f"CAST(try_cast({number} AS double) AS string)"
    same = f"try_cast({double} AS decimal(38,18)) = try_cast({number} AS decimal(38,18))"
    return f"({number} RLIKE '[eE]' OR {short} OR coalesce({same}, false))"


def _like(text: str, pattern: str) -> str:
    return f"{text} RLIKE {Spark().string(f'^(?:{pattern})$')}"


def _plain(text: str, rules: TextRules) -> str:
    """A number with a point and without thousands marks; NULL for one that is written otherwise."""
    if (rules.decimal, rules.thousands) == (".", ""):
        return text
    mark, thousands = re.escape(rules.decimal), re.escape(rules.thousands)
    whole = f"([0-9]+|[0-9]{{1,3}}({thousands}[0-9]{{3}})+)" if thousands else "[0-9]+"
    pattern = f"[+-]?({whole}({mark}[0-9]*)?|{mark}[0-9]+)([eE][+-]?[0-9]+)?"
    string = Spark().string
    digits = f"replace({text}, {string(rules.thousands)}, '')" if thousands else text
    return f"CASE WHEN {_like(text, pattern)} THEN replace({digits}, {string(rules.decimal)}, '.') END"


def _integer(text: str, kind: Type) -> str:
    whole = Type(kind=Kind.DECIMAL, precision=38)
    return (
        f"CASE WHEN {_like(text, WHOLE)} THEN try_cast(substring_index({text}, '.', 1) AS {kind.spark}) "
        f"ELSE try_cast({_decimal(text, whole, rounds=False)} AS {kind.spark}) END"
    )


def _decimal(text: str, kind: Type, *, rounds: bool) -> str:
    short = f"regexp_replace(rtrim('0', {text}), '[.]$', '.0')"
    shortened = f"if(contains({text}, '.') AND NOT {text} RLIKE '[eE]', {short}, {text})"
    value = f"try_cast({shortened} AS {kind.spark})"
    if rounds:
        return f"CASE WHEN {_like(text, NUMBER)} THEN {value} END"
    digits = f"[0-9]{{0,{kind.scale}}}0*"
    plain = _like(text, f"[+-]?([0-9]+([.]{digits})?|[.](?=[0-9]){digits})")
    # With an exponent: the place of the last digit that is not 0 must be within the scale.
    behind = f"regexp_extract({text}, '[.]([0-9]*)', 1)"
    figures = f"regexp_replace(regexp_extract({text}, '^[^eE]*', 0), '[^0-9]', '')"
    zeros = f"(length({figures}) - length(rtrim('0', {figures})))"
    last = f"CAST(regexp_extract({text}, '[eE](.*)$', 1) AS int) - length({behind}) + {zeros}"
    fits = f"({last} >= -{kind.scale} OR rtrim('0', {figures}) = '')"
    return (
        f"CASE WHEN {plain} THEN {value} WHEN {_like(text, NUMBER)} AND {text} RLIKE '[eE]' THEN "
        f"CASE WHEN {fits} THEN {value} END END"
    )


def _float(text: str, number: str, kind: Type) -> str:
    """The nearest one; a whole number has to be held exactly."""
    value = f"try_cast({number} AS {kind.spark})"
    special = ", ".join(f"'{word}'" for word in SPECIAL)
    limit = f"abs({value}) < CAST('Infinity' AS {kind.spark})"
    lost = f"({value} = 0 AND regexp_extract({number}, '^[^eE]*', 0) RLIKE '[1-9]')"
    short = 15 if kind.bits == 64 else 6
    whole = f"try_cast({number} AS decimal(38,0))"
    # Spark's own cast to a decimal takes the shortest text of the double, which is another number beyond 64 bits.
    high, low = (f"CAST(try_cast({value} {how} AS bigint) AS decimal(19,0))" for how in (f"/ {HALF}D", f"% {HALF}D"))
    same = f"try_cast({value} AS bigint) = {whole} OR {high} * CAST({HALF} AS decimal(19,0)) + {low} = {whole}"
    held = f"({number} RLIKE '[.eE]' OR length({number}) <= {short} OR coalesce({same}, false))"
    return (
        f"CASE WHEN lower({text}) IN ({special}) THEN CAST({text} AS {kind.spark}) "
        f"WHEN {_like(number, NUMBER)} THEN CASE WHEN {limit} AND NOT {lost} AND {held} THEN {value} END END"
    )


def _date(text: str, rules: TextRules) -> str:
    if rules.date_format:
        return f"CAST(try_to_timestamp({text}, {Spark().string(rules.date_format)}) AS date)"
    return f"CASE WHEN {_like(text, DAY)} THEN try_cast({text} AS date) END"


def _timestamp(text: str, rules: TextRules) -> str:
    if rules.timestamp_ntz_format:  # the session's zone is UTC, so that the cast keeps the time as it is
        return f"CAST({_formatted(text, rules.timestamp_ntz_format)} AS timestamp_ntz)"
    digits = ANY_DIGITS if rules.rounds else MICROS
    pattern = f"{DAY}([T ]{CLOCK % digits})?"
    value = f"try_cast({text} AS timestamp_ntz)"
    if rules.rounds:
        value = _within(f"timestampadd(MICROSECOND, {_above(text)}, {value})", "timestamp_ntz")
    return f"CASE WHEN {_like(text, pattern)} THEN {value} END"


def _instant(text: str, rules: TextRules) -> str:
    if rules.timestamp_format:
        return _formatted(text, rules.timestamp_format)
    digits = ANY_DIGITS if rules.rounds else MICROS
    above = _above(text) if rules.rounds else "0"
    wall = f"CAST(try_cast({text} AS timestamp_ntz) AS timestamp)"  # the session's zone is UTC
    if rules.rounds:
        wall = _within(f"timestampadd(MICROSECOND, {above}, {wall})", "timestamp")
    value = wall
    if rules.zone != "UTC":
        zone = Spark().string(rules.zone)
        value = f"to_utc_timestamp({wall}, {zone})"
        # A time that the zone skips is no time there.
        value = _within(f"CASE WHEN from_utc_timestamp({value}, {zone}) = {wall} THEN {value} END", "timestamp")
    local = f"{DAY}([T ]{CLOCK % digits})?"
    return f"CASE WHEN {_like(text, local)} THEN {value} ELSE {_with_offset(text, digits, above)} END"


def _with_offset(text: str, digits: str, above: str = "0") -> str:
    string = Spark().string
    pattern = f"{DAY}[T ]{CLOCK % digits}{OFFSET}"
    offset = string("^(.*[0-9.]) ?(Z|z|UTC|[+-][0-9]{2}(:?[0-9]{2}(:?[0-9]{2})?)?)$")
    wall = f"CAST(try_cast(regexp_extract({text}, {offset}, 1) AS timestamp_ntz) AS timestamp)"
    zone = f"rpad(replace(regexp_extract({text}, {offset}, 2), ':', ''), 7, '0')"
    hours, minutes, seconds = (f"CAST(substr({zone}, {at}, 2) AS int)" for at in (2, 4, 6))
    away = f"({hours} * 3600 + {minutes} * 60 + {seconds})"
    signed = f"if(left({zone}, 1) = '-', {away}, -{away})"
    moved = f"CASE WHEN {zone} RLIKE '^[ZzU]' THEN 0 WHEN {away} <= {FARTHEST} THEN {signed} END"
    if above != "0":
        wall = _within(f"timestampadd(MICROSECOND, {above}, {wall})", "timestamp")
    value = f"timestampadd(SECOND, {moved}, {wall})"
    return f"CASE WHEN {_like(text, pattern)} THEN {_within(value, 'timestamp')} END"


def _within(value: str, kind: str) -> str:
    """NULL for a time that an offset or rounding moves out of the years 1 to 9999."""
    first, end = (f"CAST('{bound}-01-01 00:00:00' AS {kind})" for bound in ("0001", "10000"))
    return f"CASE WHEN {value} >= {first} AND {value} < {end} THEN {value} END"


def _above(text: str) -> str:
    """1 where the digits beyond microseconds are half of one or more; else 0."""
    return f"if(regexp_extract({text}, '[.][0-9]{{6}}([0-9])', 1) >= '5', 1, 0)"


def _formatted(text: str, pattern: str) -> str:
    value = f"try_to_timestamp({text}, {Spark().string(pattern)})"
    if pattern.count("S") <= 6:
        return value
    return f"CASE WHEN date_format({value}, {Spark().string(pattern)}) = {text} THEN {value} END"


def _time(text: str, rules: TextRules) -> str:
    """As canonical text: `09:05:00.000000`."""
    if rules.rounds:
        day = f"concat('2000-01-01 ', {text})"
        value = _timestamp(day, TextRules(rounds=True))
        return f"CASE WHEN CAST({value} AS date) = DATE '2000-01-01' THEN date_format({value}, 'HH:mm:ss.SSSSSS') END"
    pattern = f"([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.]{MICROS})?)?"
    clock = f"substring_index({text}, '.', 1)"
    parts = f"if(length({clock}) - length(replace({clock}, ':', '')) = 2, {clock}, concat({clock}, ':00'))"
    fraction = f"left(rpad(regexp_extract({text}, '[.]([0-9]*)', 1), 6, '0'), 6)"
    return f"CASE WHEN {_like(text, pattern)} THEN concat(lpad({parts}, 8, '0'), '.', {fraction}) END"


def _array(text: str, element: Type, rules: TextRules) -> str:
    one = exact("x", element, rules)
    listed = f"transform(from_json({marked(text)}, 'array<string>', map({LONG_STRINGS})), y -> {unmarked('y')})"
    return (
        f"CASE WHEN {cannot_be_kept(text)} OR exists({listed}, x -> x IS NOT NULL AND {one} IS NULL) THEN NULL "
        f"ELSE transform({listed}, x -> {one}) END"
    )
