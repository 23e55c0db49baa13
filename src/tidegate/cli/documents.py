"""The documents that commands print with `--json`, for programs that run commands: the packages for orchestrators."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tidegate.errors import TidegateError, error_of

Document = Mapping[str, Any]
LEASE_CODES = frozenset({"lease_held", "lease_lost"})


class ServiceLost(TidegateError):
    """The service ended while it ran a command; nothing is left half done."""

    code = "service_lost"
    retryable = True
    default_hint = "Run again; `tidegate status` says how the stream's run ended."


def document_of(printed: str, remarks: str) -> Document:
    """The document that a command printed.

    Args:
        remarks: what it said on stderr.

    Raises:
        ServiceLost: it printed none.
        TidegateError: the document is the error of a command that did nothing.
    """
    try:
        document: Document = json.loads(printed)
    except ValueError as error:
        last = (remarks.strip().splitlines() or ["no output"])[0]
        raise ServiceLost(f"the command ended without its document: {last}") from error
    if "error" in document:
        problem = document["error"]
        raise error_of(problem["code"], problem["message"], problem["hint"])
    return document


def may_pass(error: TidegateError) -> bool:
    """Whether another attempt may succeed without anybody doing something."""
    return error.retryable or error.code in LEASE_CODES
