"""Retries a load after transient errors, with increasing delays.

Only the engine retries. An interruption is never treated as an error.
"""

from __future__ import annotations

import tenacity

from tidegate.errors import TidegateError, interrupted

ATTEMPTS = 3


def retrying() -> tenacity.Retrying:
    """Calls a load again while it may pass; the last error is raised as it is."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(_may_pass),
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=tenacity.wait_exponential_jitter(multiplier=0.5, max=10),
        reraise=True,
    )


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, TidegateError) and error.retryable and not interrupted(error)
