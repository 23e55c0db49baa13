"""Retries a load after transient errors, with increasing delays.

Only the engine retries. An interruption is never treated as an error.
"""

from __future__ import annotations

from collections.abc import Callable

import tenacity

from tidegate.errors import TidegateError, interrupted

ATTEMPTS = 3


def _ignore(_why: str, _seconds: float) -> None:
    """Nobody listens."""


def retrying(tell: Callable[[str, float], None] = _ignore) -> tenacity.Retrying:
    """Calls a load again while it may pass; the last error is raised as it is.

    Args:
        tell: called before each further attempt: why and which one it is, and in how many seconds it begins.
    """

    def before_sleep(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        why = f"{error.code}: {error.message}" if isinstance(error, TidegateError) else "an error"
        tell(f"attempt {state.attempt_number + 1} of {ATTEMPTS} after {why}", state.upcoming_sleep)

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(_may_pass),
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=tenacity.wait_exponential_jitter(multiplier=0.5, max=10),
        before_sleep=before_sleep,
        reraise=True,
    )


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, TidegateError) and error.retryable and not interrupted(error)
