"""The HTTP session of the source `http`: retries, timeouts, a pace, conditional requests, and only whole answers."""

from __future__ import annotations

import json
import time
from collections.abc import MutableMapping
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import requests
from dlt.common.jsonpath import compile_path
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from tidegate.errors import SourceError, SourceRefused, SourceUnavailable
from tidegate.sources._api.extraction import NotModified, without_logins
from tidegate.sources._api.logins import LoginScope
from tidegate.sources._api.rows import Number

BUSY = (429, 500, 502, 503, 504)
PARTIAL = 206
LONGEST_WAIT = 60
"""Seconds to the next attempt at most, whatever the API asks for."""


class ApiSession(requests.Session):
    """Sends the requests of one pass.

    Args:
        label: for messages; without a secret.
        records: the JSONPath that every answer must have; None where the whole answer is records.
        timeout, min_interval: seconds.
        validators: of the last answer, and replaced by those of the next; None to always ask for the whole answer.
        logins: where the login of the requests may be sent; None where they have none.
    """

    def __init__(  # noqa: PLR0913 - what a session is made of
        self,
        *,
        label: str,
        records: str | None,
        timeout: float,
        retries: int,
        min_interval: float,
        validators: MutableMapping[str, str] | None,
        logins: LoginScope | None = None,
    ) -> None:
        super().__init__()
        again = Retry(
            total=retries,
            backoff_factor=0.5,
            backoff_max=LONGEST_WAIT,
            status_forcelist=BUSY,
            allowed_methods=None,
            respect_retry_after_header=True,
            raise_on_status=False,
        )
        for scheme in ("http://", "https://"):
            self.mount(scheme, HTTPAdapter(max_retries=again))
        self._label = label
        # Of `$.data[*]` an empty list has no match, and is an answer all the same.
        self._path = compile_path(records.removesuffix("[*]")) if records else None
        self._records = records
        self._timeout = timeout
        self._min_interval = min_interval
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
        wait = self._sent + self._min_interval - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        if self._validators is not None:
            request.headers.update(_conditions(self._validators))
        kwargs["timeout"] = kwargs.get("timeout") or self._timeout
        self._sent = time.monotonic()
        try:
            found = super().send(request, **kwargs)
        except requests.RequestException as error:
            if error.response is not None:  # a hook of dlt's has looked at the status
                self._refuse(error.response)
            raise SourceUnavailable(
                f"{without_logins(request.url or '')} did not answer completely: {_reason(error)}",
                hint="Run again; nothing was loaded. `http: {timeout: …, retries: …}` sets how long is tried.",
            ) from None
        if found.status_code == 304 and self._validators is not None:
            raise NotModified
        self._refuse(found)
        if not found.is_redirect:
            self._parse(found)
            self._remember(found)
        return found

    def _refuse(self, found: requests.Response) -> None:
        if found.status_code < 400 and found.status_code != PARTIAL:
            return
        what = f"{without_logins(found.url)} answered {found.status_code} {found.reason}"
        if found.status_code in BUSY:
            raise SourceUnavailable(what, hint="Run again; nothing was loaded.")
        raise SourceRefused(what, hint="Correct `url:`, `params:` or `auth:` under `source: {http: …}`.")

    def _parse(self, found: requests.Response) -> None:
        """Numbers stay as they stand in the answer."""
        try:
            document = json.loads(found.content, parse_float=Number, parse_constant=_never)
        except (ValueError, RecursionError) as error:
            raise SourceError(
                f"{without_logins(found.url)} answered with something that is not JSON",
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


def _never(word: str) -> None:
    raise ValueError(f"{word} is not JSON")
