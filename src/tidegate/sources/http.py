"""The source `http`: the JSON answers of an HTTP API, page by page.

Chosen by `source: {http: {url: …}}`. Pages, logins and cursors are those of dlt's `rest_api`; requests are retried with
back-off, and an answer that is cut short or has no records where they should be is an error, never an empty one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from tidegate.core.addresses import in_the_clear
from tidegate.core.secret_names import SECRET_NAME
from tidegate.errors import ConfigError
from tidegate.sources._api.crawl import Crawl
from tidegate.sources._api.cursors import ranked
from tidegate.sources._api.extraction import VALIDATORS, Extraction, without_logins
from tidegate.sources._api.logins import PLAIN, LoginScope
from tidegate.sources._api.source import ApiSource

ONE_PAGE = "single_page"
PAGINATORS = (
    ONE_PAGE,
    "page_number",
    "offset",
    "cursor",
    "json_link",
    "header_link",
    "header_cursor",
)
LOGINS = ("bearer", "api_key", "http_basic", "oauth2_client_credentials")


NEVER_EMPTY = (401, 403, 407, 408, 425, 429)
"""Statuses that refuse a login, or a request for now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of an API.

    Args:
        url: of the first page.
        paginator: how further pages are found: `single_page` for none, or a mapping with a `type` of dlt's paginators.
        records: the JSONPath of the records, such as `$.data`; unless given, the answer is a list of them.
        params, headers: of every request.
        body: likewise, of an API that takes its query by POST; else requests are GET.
        auth: a login, with the `type` of one of dlt's.
        incremental: how the API is asked for what is new: `{cursor_path: updated_at, start_param: since}`.
        timeout: how long an answer may take.
        retries: how often a request is repeated that failed or was refused for now (429, 5xx).
        min_interval: the least time between two requests.
        conditional: ask for the answer only if it has changed, by its ETag or date; single pages only.
        plain_http: send the login over http:// beyond this machine, where others may read it.
        login_hosts: hosts beside the URL's that get the login, too, where a redirect or a further page leads there.
        empty_status: statuses by which the API says that there are no records, or no more: 204, or 404 and the like.
    """

    url: str
    paginator: str | Mapping[str, Any]
    records: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Mapping[str, Any] | None = field(default=None, repr=False)
    auth: Mapping[str, Any] | None = field(default=None, repr=False)
    incremental: Mapping[str, Any] | None = None
    timeout: timedelta = timedelta(seconds=60)
    retries: int = 5
    min_interval: timedelta = timedelta(0)
    conditional: bool = True
    plain_http: bool = False
    login_hosts: tuple[str, ...] = ()
    empty_status: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("http: url: must be http://… or https://…")
        if parts.username or parts.password:
            raise ConfigError("http: url: must not hold a login; state it with `auth:`")
        if self.page_type not in PAGINATORS:
            raise ConfigError(
                f"http: paginator: {self.page_type!r} is not one of {', '.join(PAGINATORS)}; it is never guessed, "
                f"because a page that is not requested would be missing silently"
            )
        if self.auth is not None and self.auth.get("type") not in LOGINS:
            raise ConfigError(f"http: auth: needs a `type:` of {', '.join(LOGINS)}")
        if self.timeout <= timedelta(0) or self.retries < 0 or self.min_interval < timedelta(0):
            raise ConfigError("http: timeout: must be positive, retries: and min_interval: not negative")
        for status in self.empty_status:
            if status != 204 and (not 400 <= status < 500 or status in NEVER_EMPTY):
                raise ConfigError(
                    f"http: empty_status: {status} never means that there are no records; 204 and 404 may"
                )
        self._refuse_plain()

    def _refuse_plain(self) -> None:
        """Refuses a login in the clear before anything is sent."""
        tokens = str((self.auth or {}).get("access_token_url") or self.url)
        if self.logs_in and not self.plain_http and (in_the_clear(self.url) or in_the_clear(tokens)):
            raise ConfigError("http: the login would be sent in the clear", hint=PLAIN)

    @property
    def logs_in(self) -> bool:
        """Whether requests hold a login, by `auth:` or by the name of a header, parameter or key of the body."""
        names = (*self.headers, *self.params, *(self.body or {}), *dict(parse_qsl(urlsplit(self.url).query)))
        return self.auth is not None or any(SECRET_NAME.search(name) for name in names)

    @property
    def page_type(self) -> str:
        """How further pages are found."""
        return self.paginator if isinstance(self.paginator, str) else str(self.paginator.get("type"))

    @property
    def place(self) -> str:
        """The URL for people."""
        return without_logins(self.url)

    def config(self, session: Any) -> dict[str, Any]:
        """The request for dlt's `rest_api`."""
        from tidegate.sources._api.pages import pages_of  # noqa: PLC0415 - dlt is imported only where an API is asked

        options = {"type": self.paginator} if isinstance(self.paginator, str) else _plain(self.paginator)
        endpoint: dict[str, Any] = {
            "path": self.url,
            "method": "GET" if self.body is None else "POST",
            "params": dict(self.params),
            "paginator": pages_of(options, records=self.records, none=self.empty_status),
            "data_selector": self.records or "$",
        }
        if self.body is not None:
            endpoint["json"] = _plain(self.body)
        if self.incremental is not None:
            endpoint["incremental"] = _plain(self.incremental)
        client: dict[str, Any] = {"base_url": self.place, "headers": dict(self.headers), "session": session}
        if self.auth is not None:
            client["auth"] = {**_plain(self.auth), **self._tokens()}
        return {"client": client, "resources": [{"name": "records", "endpoint": endpoint}]}

    def _tokens(self) -> dict[str, Any]:
        """What asks for the token of a login that needs one."""
        from tidegate.sources._api.session import TokenSession  # noqa: PLC0415 - as above

        url = (self.auth or {}).get("access_token_url")
        if url is None:
            return {}
        scope = LoginScope(url=str(url), hosts=self.login_hosts, plain_http=self.plain_http)
        return {"session": TokenSession(timeout=self.timeout.total_seconds(), retries=self.retries, logins=scope)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Http(ApiSource):
    """The records that an HTTP API answers.

    Args:
        http: what is asked.
        columns: exact types of columns, above all of times and decimals: `{at: timestamptz}`.
        staging: the folder of the answers; `.tidegate/staging/STREAM` unless given.
        keep_raw: how long answers are kept that the table holds; forever unless given.
    """

    kind: ClassVar[str] = "http"

    http: Request
    _crawl: Crawl = field(default_factory=Crawl, init=False, repr=False, compare=False)

    @property
    def label(self) -> str:
        """The URL without its query."""
        return self.http.place

    @property
    def identity(self) -> str:
        """Also what is asked for, but neither login nor headers."""
        asked = (self.http.url, sorted(self.http.params.items()), self.http.body, self.http.records)
        return f"{self.kind}:{self.label}:{_digest(asked)}"

    def extraction(self, since: str | None) -> Extraction:
        """One pass over the pages."""
        whole, ended = not self.increments, self._crawl.forget
        return Extraction(make=self._made, label=self.label, since=since, whole=whole, quotes=False, ended=ended)

    def _made(self, state: dict[str, Any]) -> Any:
        from dlt.sources.rest_api import rest_api_source  # noqa: PLC0415 - a second, and only where an API is asked

        from tidegate.sources._api.session import ApiSession  # noqa: PLC0415 - as above

        known: dict[str, str] | None = None
        if self.http.conditional and self.http.page_type == ONE_PAGE and self.http.incremental is None:
            known = state.setdefault(VALIDATORS, {})
            what = _digest((self.identity, self.columns))  # an answer to this request, with these types
            if known.get("of") != what:
                known.clear()
                known["of"] = what
        session = ApiSession(
            label=self.label,
            records=self.http.records,
            timeout=self.http.timeout.total_seconds(),
            retries=self.http.retries,
            min_interval=self.http.min_interval.total_seconds(),
            none=self.http.empty_status,
            validators=known,
            logins=LoginScope(url=self.http.url, hosts=self.http.login_hosts, plain_http=self.http.plain_http)
            if self.http.logs_in
            else None,
            crawl=self._crawl if self.http.page_type != ONE_PAGE else None,
        )
        made = rest_api_source(self.http.config(session), name="http")  # type: ignore[arg-type]
        if self.http.incremental is not None:
            made.resources["records"].add_map(ranked(str(self.http.incremental.get("cursor_path"))))
        return made


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
