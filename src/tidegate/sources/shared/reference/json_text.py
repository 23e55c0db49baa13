"""Writes nested values of typed files as JSON, like Spark's `to_json`.

Used for columns declared as `json`. Omits nothing except NULL fields of structs.
"""

from __future__ import annotations

import base64
import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]


def written(value: Any, kind: Any) -> str:
    """The JSON text of a value of an Arrow type."""
    if value is None:
        return "null"
    if pa.types.is_struct(kind):
        present = [field for field in kind if value[field.name] is not None]
        return _braced((field.name, written(value[field.name], field.type)) for field in present)
    if pa.types.is_map(kind):
        return _braced((str(key), written(each, kind.item_type)) for key, each in value)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"[{','.join(written(each, kind.value_type) for each in value)}]"
    return scalar(value)


def scalar(value: Any) -> str:
    """The JSON text of a value that is not nested."""
    if isinstance(value, float) and value - value == 0:
        return java_double(value)
    if isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return json.dumps(base64.b64encode(value).decode())
    if isinstance(value, datetime):
        return json.dumps(value.isoformat("T", "microseconds").replace("+00:00", "Z"))
    text = value.isoformat() if isinstance(value, date) else str(value)
    return json.dumps(text, ensure_ascii=False)


def java_double(value: float) -> str:
    """The text of a finite double as Java writes it.

    Example:
        >>> java_double(100.0), java_double(1e7), java_double(0.00012)
        ('100.0', '1.0E7', '1.2E-4')
    """
    size = abs(value)
    if size == 0 or 1e-3 <= size < 1e7:
        return repr(value)
    digits = Decimal(repr(value)).normalize().as_tuple()
    exponent = len(digits.digits) - 1 + int(digits.exponent)
    first, rest = digits.digits[0], "".join(map(str, digits.digits[1:])) or "0"
    return f"{'-' if digits.sign else ''}{first}.{rest}E{exponent}"


def _braced(fields: Any) -> str:
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{text}" for name, text in fields) + "}"
