"""SQL expressions that decode a value of a message to a column's type: exactly, or not at all.

A value that does not fit becomes NULL here, and its event is then refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from tidegate.core.schema import TEXT, Column, Kind, Type
from tidegate.dialects.spark import LONG_STRINGS
from tidegate.dialects.spark.exact_text import TextRules
from tidegate.dialects.spark.exact_text import exact as exact_text
from tidegate.dialects.spark.json_text import marked, unmarked

LEAST_MICROS, MOST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
LEAST_DAY, MOST_DAY = -719_162, 2_932_896
"""The first and the last moment and day of the years 1 to 9999, since 1970."""

LONG_SCALE = 17
"""A number of 64 bits with as many digits behind the point has no more than 38 digits."""
NONE = "CAST(NULL AS string)"
SIGN = "0123456789ABCDEF"
DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
CLOCK = "[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6}0*)?)?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A value and how it is written, each the SQL of a text.

    Args:
        raw: as JSON holds it, a string without its quotes.
        type, name: see `_connect.ColumnEncoding`.
        scale, length: what a decimal and a bit string are told of theirs.
        number: the condition that JSON holds a number, and no text of digits.
    """

    raw: str
    type: str
    name: str
    scale: str = "CAST(NULL AS string)"
    length: str = "CAST(NULL AS string)"
    number: str = "false"


def value(column: Column, of: Encoded) -> str:  # noqa: C901, PLR0911 - one answer a kind
    """The expression of the column's stored type; NULL for a value that it cannot hold."""
    kind = column.type
    match kind.kind:
        case Kind.BOOLEAN:
            return f"CASE WHEN {of.raw} IN ('true', '1') THEN true WHEN {of.raw} IN ('false', '0') THEN false END"
        case Kind.INTEGER:
            whole = f"CASE {of.raw} WHEN 'true' THEN '1' WHEN 'false' THEN '0' ELSE {of.raw} END"
            return f"try_cast({whole} AS {kind.spark})"
        case Kind.FLOAT:
            # Digits beyond the type are cast to infinity, which nobody wrote.
            found = f"try_cast({of.raw} AS {kind.spark})"
            return f"CASE WHEN NOT ({of.raw} RLIKE '[0-9]' AND abs({found}) = double('Infinity')) THEN {found} END"
        case Kind.DECIMAL:
            unsigned = (column.native or "").endswith("unsigned")
            return _decimal(kind, of, unsigned=unsigned)
        case Kind.DATE:
            return _date(of)
        case Kind.TIMESTAMP:
            return _timestamp(of)
        case Kind.TIMESTAMPTZ:
            return _instant(of)
        case Kind.TIME:
            return _time(of)
        case Kind.UUID:
            return f"lower({of.raw})"
        case Kind.BINARY:
            text = f"CASE WHEN {of.type} = 'bytes' THEN try_to_binary({of.raw}, 'base64')"
            return f"{text} WHEN {of.name} = 'Hex' THEN try_to_binary({of.raw}, 'hex') END"
        case Kind.ARRAY:
            return _array(kind.element or TEXT, of)
        case _:
            return _text(column, of)


def _text(column: Column, of: Encoded) -> str:
    native = (column.native or "").rpartition(".")[2].lower()
    numbers = native.startswith(("decimal", "number", "numeric", "variablescaledecimal"))
    blanks = f"rtrim({of.raw})" if native == "bpchar" else of.raw  # PostgreSQL pads what nobody wrote
    cases = [f"WHEN {of.name} IN ('Decimal', 'VariableScaleDecimal') THEN {_number(of) if numbers else NONE}"]
    cases.append(f"WHEN {of.name} = 'Bits' THEN {_bits(of) if native.startswith('bit') else NONE}")
    return f"CASE {' '.join(cases)} WHEN {of.type} <> 'bytes' THEN {blanks} END"


def _bits(of: Encoded) -> str:
    """The digits of a bit string of at most 64, which comes with its lowest byte first."""
    bytes_ = f"regexp_extract_all(hex(try_to_binary({of.raw}, 'base64')), '..', 0)"
    digits = f"conv(array_join(reverse({bytes_}), ''), 16, 2)"
    return f"CASE WHEN try_cast({of.length} AS int) <= 64 THEN lpad({digits}, try_cast({of.length} AS int), '0') END"


def _number(of: Encoded, of_text: Callable[[str], str] = str) -> str:
    """What is made of the text of a number, digit for digit.

    Args:
        of_text: the expression of an expression of it.
    """
    inside = [f"get_json_object({of.raw}, '$.{part}')" for part in ("value", "scale")]
    one, other = (let(_shifted(*parts), "n", of_text("n")) for parts in ((of.raw, of.scale), inside))
    return (
        f"CASE WHEN {of.name} = 'Decimal' AND NOT ({of.number}) THEN {one} "
        f"WHEN {of.name} = 'VariableScaleDecimal' THEN {other} ELSE {of_text(of.raw)} END"
    )


def _shifted(base64: str, scale: str) -> str:
    """The text of a number whose digits come as bytes and whose point stands `scale` digits from the right."""
    whole = let(f"hex(try_to_binary({base64}, 'base64'))", "h", _whole("h"))
    digits = "lpad(ltrim('-', n), greatest(length(ltrim('-', n)), k + 1), '0')"
    point = f"concat(left({digits}, length({digits}) - k), '.', right({digits}, k))"
    placed = f"concat(if(startswith(n, '-'), '-', ''), if(k > 0, {point}, concat(ltrim('-', n), repeat('0', -k))))"
    return let(whole, "n", let(f"try_cast({scale} AS int)", "k", placed))


def _whole(digits: str) -> str:
    """The text of a big-endian two's complement of at most 16 bytes, given in hex."""
    negative = f"left({digits}, 1) >= '8'"
    # The magnitude: of a negative number all bits turned around, which is one less.
    turned = f"translate({digits}, '{SIGN}', '{SIGN[::-1]}')"
    long = f"lpad(if({negative}, {turned}, {digits}), 32, '0')"
    limbs = (
        f"try_multiply(CAST(conv(substr(m, {1 + 8 * place}, 8), 16, 10) AS decimal(38,0)), "
        f"CAST('{2 ** (32 * (3 - place))}' AS decimal(38,0)))"
        for place in range(4)
    )
    total = "CAST(0 AS decimal(38,0))"
    for limb in limbs:
        total = f"try_add({total}, {limb})"
    # Not by a minus: Spark rounds a decimal to 34 digits when it turns its sign.
    below = "concat('-', CAST(try_add(t, CAST(1 AS decimal(38,0))) AS string))"
    wide = let(long, "m", let(total, "t", f"if({negative}, {below}, CAST(t AS string))"))
    return (
        f"CASE WHEN length({digits}) = 0 THEN '0' WHEN length({digits}) <= 16 THEN {_short(digits)} "
        f"WHEN length({digits}) <= 32 THEN {wide} END"
    )


def _short(digits: str) -> str:
    """The same of at most 8 bytes."""
    return f"conv(lpad({digits}, 16, if(left({digits}, 1) >= '8', 'F', '0')), 16, -10)"


def _decimal(kind: Type, of: Encoded, *, unsigned: bool) -> str:
    """A number that needs no digit beyond those of the type."""

    def exact(n: str) -> str:
        # A connector that keeps unsigned numbers in signed ones turns the upper half of them around.
        number = f"CASE WHEN NOT startswith({n}, '-') THEN {n} END" if unsigned else n
        return exact_text(number, kind, TextRules())

    whole = _number(of, exact)
    return whole if unsigned or kind.scale > LONG_SCALE else f"CASE {_usual(kind, of)} ELSE {whole} END"


def _usual(kind: Type, of: Encoded) -> str:
    """The case of a decimal of eight bytes at most, with the type's own scale: no text of it has to be looked at."""
    digits = f"hex(try_to_binary({of.raw}, 'base64'))"
    unit = f"CAST('{Decimal(1).scaleb(-kind.scale):f}' AS decimal({kind.scale + 1},{kind.scale}))"
    value = f"try_cast(CAST({_short(digits)} AS decimal(19,0)) * {unit} AS {kind.spark})"
    likely = f"{of.name} = 'Decimal' AND {of.scale} = '{kind.scale}' AND {_within(f'length({of.raw})', 2, 12)}"
    certain = f"NOT ({of.number}) AND {_within(f'length({digits})', 2, 16)}"
    return f"WHEN CASE WHEN {likely} THEN {certain} ELSE false END THEN {value}"


def _date(of: Encoded) -> str:
    days = f"try_cast({of.raw} AS int)"
    iso = f"CASE WHEN {of.raw} RLIKE '^{DAY}Z?$' THEN try_cast(left({of.raw}, 10) AS date) END"
    return (
        f"CASE WHEN {of.name} = 'Date' THEN "
        f"CASE WHEN {_within(days, LEAST_DAY, MOST_DAY)} THEN date_add(DATE '1970-01-01', {days}) END "
        f"WHEN {of.type} = 'string' THEN {iso} END"
    )


def _micros(of: Encoded, suffix: str) -> str:
    """Whole microseconds of an integer that counts them, or thousands or thousandths of them."""
    number = f"try_cast({of.raw} AS bigint)"
    return (
        f"CASE {of.name} WHEN 'Micro{suffix}' THEN {number} WHEN '{suffix}' THEN try_multiply({number}, 1000L) "
        f"WHEN 'Nano{suffix}' THEN if({number} % 1000 = 0, {number} DIV 1000, CAST(NULL AS bigint)) END"
    )


def _moment(of: Encoded) -> str:
    micros = _micros(of, "Timestamp")
    return f"CASE WHEN {_within(micros, LEAST_MICROS, MOST_MICROS)} THEN timestamp_micros({micros}) END"


def _timestamp(of: Encoded) -> str:
    # The session's zone is UTC, so that the cast keeps the time as it is.
    iso = f"^(?!0000){DAY}[T ]{CLOCK}Z?$"
    text = f"CASE WHEN {of.raw} RLIKE '{iso}' THEN try_cast(rtrim('Z', {of.raw}) AS timestamp_ntz) END"
    return f"CASE WHEN {of.type} = 'string' THEN {text} ELSE CAST({_moment(of)} AS timestamp_ntz) END"


def _instant(of: Encoded) -> str:
    iso = f"^(?!0000){DAY}[T ]{CLOCK}(Z|[+-][0-9]{{2}}(:?[0-9]{{2}})?)$"
    text = f"CASE WHEN {of.raw} RLIKE '{iso}' THEN try_cast({of.raw} AS timestamp) END"
    return f"CASE WHEN {of.type} = 'string' THEN {text} ELSE {_moment(of)} END"


def _time(of: Encoded) -> str:
    """`12:00:00.000000`; hours beyond a day and a sign are kept."""
    parts = "abs(m) DIV 3600000000, abs(m) DIV 60000000 % 60, abs(m) DIV 1000000 % 60, abs(m) % 1000000"
    formatted = f"concat(if(m < 0, '-', ''), format_string('%02d:%02d:%02d.%06d', {parts}))"
    short = f"rtrim('Z', {of.raw})"
    padded = f"concat({short}, substr(':00.000000', length({short}) - 4))"
    cut = f"left(if(length({short}) = 5 OR length({short}) = 8, {padded}, rpad({short}, 15, '0')), 15)"
    text = f"CASE WHEN {of.raw} RLIKE '^{CLOCK}Z?$' THEN {cut} END"
    return f"CASE WHEN {of.type} = 'string' THEN {text} ELSE {let(_micros(of, 'Time'), 'm', formatted)} END"


def _array(element: Type, of: Encoded) -> str:
    one = value(Column(name="element", type=element), Encoded(raw="x", type="'string'", name="''"))
    whole = f"CASE WHEN exists(a, x -> x IS NOT NULL AND {one} IS NULL) THEN NULL ELSE transform(a, x -> {one}) END"
    listed = f"transform(from_json({marked(of.raw)}, 'array<string>', map({LONG_STRINGS})), y -> {unmarked('y')})"
    return let(listed, "a", whole)


def _within(number: str, least: int, most: int) -> str:
    """Whether it lies between them, both included; Spark makes a row of its own for what is asked by BETWEEN."""
    return f"{number} >= {least} AND {number} <= {most}"


def let(expression: str, name: str, body: str) -> str:
    """The body with the expression computed once under that name; NULL for a NULL."""
    return f"get(transform(array({expression}), {name} -> if({name} IS NULL, NULL, {body})), 0)"
