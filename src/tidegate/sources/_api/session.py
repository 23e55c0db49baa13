"""The HTTP session of the source `http`: retries, timeouts, a pace, conditional requests, and only whole answers."""

from __future__ import annotations

import logging
import time
from collections.abc import MutableMapping
from contextlib import suppress
from datetime import timedelta
from email.utils import parsedate_to_datetime
from threading import Event, Timer
from typing import Any, Self

import requests
from dlt.common.jsonpath import compile_path
from requests.adapters import HTTPAdapter
from urllib3.exceptions import InvalidHeader
from urllib3.util.retry import Retry

from tidegate.errors import SourceError, SourceRefused, SourceUnavailable
from tidegate.sources._api.crawl import Crawl
from tidegate.sources._api.documents import NoDocument, parsed
from tidegate.sources._api.extraction import NotModified, without_logins
from tidegate.sources._api.logins import LoginScope

BUSY = (429, 500, 502, 503, 504)
NOT_READY = 202
WHOLE = (200, 201, 203)
"""Statuses of answers that have everything that was asked for."""
LONGEST_WAIT = 60
"""Seconds to the next attempt at most; an API that asks for more ends the load, which holds the stream meanwhile."""
LONGEST = 10**9
"""Seconds that `Retry-After` is read up to."""
_log = logging.getLogger("tidegate.api")


class Patience(Retry):
    """Waits as the API asks for, and tells so; but not longer than `LONGEST_WAIT`."""

    def parse_retry_after(self, retry_after: str) -> float:
        """Seconds; 0 for what is neither a number nor a time."""
        try:
            return float(super().parse_retry_after(retry_after))
        except (InvalidHeader, ValueError, OverflowError):
            return LONGEST if retry_after.strip().isdecimal() else 0

    def increment(self, *args: Any, **kwargs: Any) -> Self:
        """What is left of it after an attempt.

        Raises:
            SourceRefused: the API asks for a longer wait.
        """
        made = super().increment(*args, **kwargs)
        response = kwargs.get("response")
        wait = self.get_retry_after(response) if response is not None else None
        if wait and response is not None:
            _refuse_wait(response.status, wait)
            _log.info("the API answered %s: waiting for %.0f seconds, as it asks", response.status, wait)
        return made


class PackedAdapter(HTTPAdapter):
    """Leaves a compressed body as it was sent, since urllib3 takes the beginning of one for all of it."""

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        """See `HTTPAdapter`."""
        made = super().build_response(req, resp)
        resp.headers.pop("Content-Encoding", None)
        return made


def _refuse_wait(status: int, wait: float) -> None:
    if wait > LONGEST_WAIT:
        raise SourceRefused(
            f"the API answered {status}, and asks to be left alone for {wait:.0f} seconds",
            hint="Run again then; nothing was loaded. `http: {min_interval: …}` asks less often.",
        )


def _busy(found: requests.Response, what: str) -> SourceUnavailable:
    """Why there is no answer for now, after all attempts. Raises SourceRefused where the API asks for a long wait."""
    after = found.headers.get("Retry-After")
    if after is not None:
        _refuse_wait(found.status_code, Patience(retry_after_max=LONGEST).parse_retry_after(after))
    return SourceUnavailable(what, hint="Run again; nothing was loaded.")


class ApiSession(requests.Session):
    """Sends the requests of one pass.

    Args:
        label: for messages; without a secret.
        records: the JSONPath that every answer must have; None where the whole answer is records.
        timeout, min_interval: seconds.
        none: statuses that mean that there are no records.
        validators: of the last answer, and replaced by those of the next; None to always ask for the whole answer.
        logins: where the login of the requests may be sent; None where they have none.
        crawl: what was answered before this pass failed, and is not asked for again; None to ask always.
    """

    def __init__(  # noqa: PLR0913 - what a session is made of
        self,
        *,
        label: str,
        records: str | None,
        timeout: float,
        retries: int,
        min_interval: float,
        none: tuple[int, ...],
        validators: MutableMapping[str, str] | None,
        logins: LoginScope | None = None,
        crawl: Crawl | None = None,
    ) -> None:
        super().__init__()
        self._crawl = crawl
        _repeat(self, retries, PackedAdapter)
        self.headers["Accept-Encoding"] = "gzip"
        self._label = label
        # Of `$.data[*]` an empty list has no match, and is an answer all the same.
        self._path = compile_path(records.removesuffix("[*]")) if records else None
        self._records = records
        self._timeout = timeout
        self._min_interval = min_interval
        self._none = none
        self._validators = validators
        self._logins = logins
        self._sent = 0.0

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """The answer, whose body is complete JSON with records.

        Raises:
            NotModified: it is the one that is known.
            SourceUnavailable: no answer, or none for now, after all attempts.
            SourceRefused: the API refuses the request, or leads to where its login must not be sent.
            SourceError: the answer is not JSON, or has no records where they should be.
        """
        if self._logins is not None:
            self._logins.check(request.url or "")
        known = self._crawl.answer(request) if self._crawl is not None else None
        if known is not None:
            self._parse(known)
            return known
        time.sleep(max(self._sent + self._min_interval - time.monotonic(), 0))
        if self._validators is not None:
            request.headers.update(_conditions(self._validators))
        kwargs["timeout"] = kwargs.get("timeout") or self._timeout
        self._sent = time.monotonic()
        try:
            found = super().send(request, **{**kwargs, "stream": True})
            self._receive(found)
        except requests.RequestException as error:
            if error.response is None:
                raise _unavailable(request, error) from None
            found = error.response  # a hook of dlt's has looked at the status
        if found.status_code == 304 and self._validators is not None:
            raise NotModified
        if found.status_code in self._none:
            found.json = lambda **_: []  # type: ignore[method-assign]
            return found
        self._refuse(found)
        if not found.is_redirect:
            self._parse(found)
            self._remember(found)
            if self._crawl is not None:
                self._crawl.keep(request, found)
        return found

    def _receive(self, found: requests.Response) -> None:
        """Reads the body, for no longer than an answer may take."""
        late = Event()

        def stop() -> None:
            late.set()
            with suppress(ValueError, OSError):  # it has just come
                found.raw.shutdown()

        timer = Timer(self._timeout, stop)
        timer.start()
        try:
            found.content  # noqa: B018 - which is read once
        except requests.RequestException:
            if not late.is_set():
                raise
        finally:
            timer.cancel()
        if late.is_set():
            raise requests.exceptions.Timeout

    def _refuse(self, found: requests.Response) -> None:
        if found.status_code in WHOLE or found.is_redirect:
            return
        what = f"{without_logins(found.url)} answered {found.status_code} {found.reason}"
        if found.status_code in (*BUSY, NOT_READY):
            raise _busy(found, what)
        hint = "Correct `url:`, `params:` or `auth:` under `source: {http: …}`."
        if found.status_code in (204, 404, 410):
            hint += f" If that means that there are no records, write `empty_status: [{found.status_code}]` there."
        raise SourceRefused(what, hint=hint)

    def _parse(self, found: requests.Response) -> None:
        """Numbers stay as they stand in the answer."""
        try:
            document = parsed(found.content, found.headers)
        except EOFError:
            raise _unavailable(found.request, requests.exceptions.ChunkedEncodingError()) from None
        except NoDocument as error:
            raise SourceError(
                f"{without_logins(found.url)} answered {error}",
                hint="Look at the answer, for example with curl; `url:` must name the API, not a page for people.",
            ) from error
        if not self._has_records(document):
            where = "a list of records" if self._records is None else f"{self._records}, where the records should be"
            raise SourceError(
                f"{without_logins(found.url)} answered without {where}",
                hint="Correct `records:` under `source: {http: …}` (`$` where the answer is one record); nothing was "
                "loaded.",
            )
        found.json = lambda **_: document  # type: ignore[method-assign]

    def _has_records(self, document: Any) -> bool:
        """Whether records are where they should be; `null` is none, and no empty list of them either."""
        if self._path is None:
            return isinstance(document, list)
        found = self._path.find(document)
        return bool(found) and all(match.value is not None for match in found)

    def _remember(self, found: requests.Response) -> None:
        if self._validators is None:
            return
        for name in ("etag", "date"):
            self._validators.pop(name, None)
        if "ETag" in found.headers:
            self._validators["etag"] = found.headers["ETag"]
        if _is_past(found.headers.get("Last-Modified"), found.headers.get("Date")):
            self._validators["date"] = found.headers["Last-Modified"]


class TokenSession(requests.Session):
    """Asks for the token of an OAuth 2 login.

    Args:
        timeout: in seconds.
        logins: where the login may be sent.
    """

    def __init__(self, *, timeout: float, retries: int, logins: LoginScope) -> None:
        super().__init__()
        _repeat(self, retries)
        self._timeout = timeout
        self._logins = logins

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """The answer, which has a token.

        Raises:
            SourceUnavailable: no answer, or none for now, after all attempts.
            SourceRefused: the login is refused, or would go to where it must not be sent.
        """
        self._logins.check(request.url or "")
        try:
            found = super().send(request, **{**kwargs, "timeout": self._timeout})
        except requests.RequestException as error:
            raise _unavailable(request, error) from None
        if found.is_redirect:
            return found
        what = f"{without_logins(found.url)} answered {found.status_code} {found.reason} to a request for a token"
        if found.status_code in BUSY:
            raise _busy(found, what)
        if found.status_code not in WHOLE or not _has_token(found):
            raise SourceRefused(
                what if found.status_code not in WHOLE else f"{what}, and gave none",
                hint="Correct `auth:` under `source: {http: …}`.",
            )
        return found


def _has_token(found: requests.Response) -> bool:
    try:
        document = found.json()
    except ValueError:
        return False
    return isinstance(document, dict) and isinstance(document.get("access_token"), str)


def _repeat(session: requests.Session, retries: int, adapter: type[HTTPAdapter] = HTTPAdapter) -> None:
    """Has requests repeated that failed or were refused for now."""
    again = Patience(
        total=retries,
        backoff_factor=0.5,
        backoff_max=LONGEST_WAIT,
        status_forcelist=BUSY,
        allowed_methods=None,
        respect_retry_after_header=True,
        retry_after_max=LONGEST,
        raise_on_status=False,
    )
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter(max_retries=again))


def _unavailable(request: requests.PreparedRequest, error: requests.RequestException) -> SourceUnavailable:
    return SourceUnavailable(
        f"{without_logins(request.url or '')} did not answer completely: {_reason(error)}",
        hint="Run again; nothing was loaded. `http: {timeout: …, retries: …}` sets how long is tried.",
    )


def _conditions(known: MutableMapping[str, str]) -> dict[str, str]:
    if "etag" in known:
        return {"If-None-Match": known["etag"]}
    return {"If-Modified-Since": known["date"]} if "date" in known else {}


def _is_past(changed: str | None, sent: str | None) -> bool:
    """Whether no later change of an answer can have the same time, which is of whole seconds (RFC 9110, 8.8.2.2).

    Example:
        >>> sent = "Wed, 01 Jan 2025 00:00:07 GMT"
        >>> _is_past("Wed, 01 Jan 2025 00:00:06 GMT", sent), _is_past(sent, sent), _is_past(sent, None)
        (True, False, False)
    """
    try:
        moments = [parsedate_to_datetime(each or "") for each in (changed, sent)]
        return moments[1] - moments[0] >= timedelta(seconds=1)
    except (ValueError, TypeError):  # one is no time, or only one has a zone
        return False


def _reason(error: requests.RequestException) -> str:
    """Why, in words that hold no address."""
    words = {
        requests.exceptions.SSLError: "its TLS certificate is not valid",
        requests.exceptions.Timeout: "it took too long",
        requests.exceptions.ChunkedEncodingError: "the answer was cut short",
        requests.exceptions.TooManyRedirects: "it redirects for ever",
        requests.exceptions.RetryError: "it failed every time",
        requests.exceptions.ConnectionError: "the connection failed",
    }
    return next((text for kind, text in words.items() if isinstance(error, kind)), type(error).__name__)
