"""Decides which errors of a load are worth another attempt, and how long to wait before it.

Called by the runner and by backfills: only the engine retries. Must never take an interruption for an error.
"""

from __future__ import annotations

import tenacity

from tidegate.errors import TidegateError

ATTEMPTS = 3


def retrying() -> tenacity.Retrying:
    """Calls a load again while it may pass; the last error is raised as it is."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(_may_pass),
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=tenacity.wait_exponential_jitter(multiplier=0.5, max=10),
        reraise=True,
    )


def interrupted(error: BaseException | None) -> bool:
    """Whether an error came up only while an interruption unwound."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, TidegateError) and error.retryable and not interrupted(error)
