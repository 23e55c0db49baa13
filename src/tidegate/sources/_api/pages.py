"""Asks an API for page after page until it says that there are no more, and holds what it says against what came.

dlt's paginators write the requests. Where the pages end is decided here, because by theirs an API that gives fewer
records than it was asked for, or never comes to an end, is believed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dlt.common.jsonpath import compile_path
from dlt.sources.helpers.rest_client.paginators import BasePaginator
from dlt.sources.rest_api.config_setup import create_paginator
from requests import Request, Response

from tidegate.errors import ConfigError, SourceError
from tidegate.sources._api.extraction import without_logins
from tidegate.sources.shared.deep import deep

WORDS = {"total_path": "total", "has_more_path": "has_more", "next_url_path": "next"}
"""Where an answer says how much there is, that there is more, and where, unless the options say otherwise."""
ITSELF = frozenset({"$", "$.*", "$[*]"})
"""Where the records are if the whole answer is one, so that its fields are values."""
FIRST = "initial_cursor"
CURSORS = frozenset({"cursor", "header_cursor"})
"""The types with a cursor, which the first request may carry, too."""
BOOLEANS = {"true": True, "false": False}
EMPTY_PAGES = 1_000
"""How many pages without a record may follow one another."""
NOTHING = "Nothing was loaded."
HOW = {
    "single_page": "Say with `paginator:` how the API is asked for further pages",
    "page_number": "Correct `page_param:` and `base_page:` under `paginator:`",
    "offset": "Correct `offset_param:` and `limit_param:` under `paginator:`",
    "cursor": "Correct `cursor_path:` and `cursor_param:` under `paginator:`, with `initial_cursor:` if only a request "
    "that carries a cursor gets one",
    "json_link": "Correct `next_url_path:` under `paginator:`",
    "header_link": "Correct `links_next_key:` under `paginator:`",
    "header_cursor": "Correct `cursor_key:` and `cursor_param:` under `paginator:`",
}


@dataclass(frozen=True, slots=True)
class Word:
    """What an answer says.

    Args:
        total: how many records there are, or pages.
        more: whether there are more.
        link: it names a next page.
    """

    total: int | None = None
    more: bool | None = None
    link: bool = False


def pages_of(options: Mapping[str, Any], *, records: str | None, none: tuple[int, ...] = ()) -> Pages:
    """How further pages are found.

    Args:
        options: `type` and options of one of dlt's paginators. For every type `total_path`, `has_more_path` and
            `next_url_path` say where an answer tells that there is more; null where it does not.
        records: the JSONPath of the records; None where the answer is a list of them.
        none: statuses by which the API says that there are no records, or no more.

    Raises:
        ConfigError: dlt's paginator has no such option, or nothing says where the pages end.
    """
    kinds: dict[str, type[Pages]] = {"page_number": NumberedPages, "offset": OffsetPages}
    return kinds.get(str(options["type"]), Pages)(options, records=records, none=none)


class Pages(BasePaginator):
    """Pages of which each one names the next; the base of those that are counted. See `pages_of`."""

    maximum: str | None = None
    """The option that ends the pages before the last one."""

    def __init__(self, options: Mapping[str, Any], *, records: str | None, none: tuple[int, ...]) -> None:
        super().__init__()
        self._type = str(options["type"])
        self._options = options
        self._first = options.get(FIRST) if self._type in CURSORS else None
        self._none = none
        own = {self.maximum, "stop_after_empty_page", *WORDS, *((FIRST,) if self._type in CURSORS else ())}
        if self._type == "json_link":
            own.remove("next_url_path")  # the link that is followed
        try:
            asks = create_paginator({name: value for name, value in options.items() if name not in own})  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            raise ConfigError(f"http: paginator: {error}") from error
        self._asks: Any = asks
        known: Mapping[str, str] = {} if records in ITSELF else WORDS
        places = {name: options.get(name, known.get(name)) for name in WORDS if name in own}
        self._paths = {name: compile_path(place) for name, place in places.items() if place is not None}
        self._seen: set[bytes] = set()
        self._announced: int | None = None
        self._pages = self._rows = self._empty = 0
        self._place = ""

    def init_request(self, request: Request) -> None:
        """Prepares the request for the first page."""
        self._asks.init_request(request)
        if self._first is not None:
            self._asks._next_reference = self._first  # noqa: SLF001 - dlt begins without a cursor
            self._asks.update_request(request)
        self._is_new("request", request.method, request.url, request.params, request.json)

    def update_request(self, request: Request) -> None:
        """Prepares the request for the next page.

        Raises:
            SourceError: it was sent before.
        """
        if not self.has_next_page:
            return
        self._asks.update_request(request)
        if not self._is_new("request", request.method, request.url, request.params, request.json):
            raise self._error(f"leads from page {self._pages} back to a page that was read before, so it never ends")

    def update_state(self, response: Response, data: list[Any] | None = None) -> None:
        """Takes a page, and finds out whether there is another one.

        Raises:
            SourceError: what the API says does not agree with what came.
        """
        self._place = without_logins(response.url)
        count = len(data or ())
        self._pages += 1
        self._rows += count
        self._empty = 0 if count else self._empty + 1
        if self._empty > EMPTY_PAGES:
            raise self._error(f"answered {self._empty} pages without a record one after another")
        if count and not self._is_new("page", data):
            raise self._error(f"answered page {self._pages} with the records of an earlier page", WHERE_IT_ENDS)
        if response.status_code in self._none:
            self._has_next_page = False
            self._check_end(count, Word(total=self._announced))
            return
        word = self._word(response)
        self._announced = word.total
        stops = not count and bool(self._options.get("stop_after_empty_page"))
        self._has_next_page = not stops and self._goes_on(response, count, word)
        if not self._has_next_page and not stops and not self._is_limited:
            self._check_end(count, word)

    @property
    def _is_limited(self) -> bool:
        """Whether the maximum that the project states has been reached, and the rest is not wanted."""
        return False

    def _goes_on(self, response: Response, count: int, word: Word) -> bool:
        """Whether the next page is to be asked for."""
        del count
        self._asks.update_state(response)
        return self._asks.has_next_page and word.more is not False

    def _has_come(self, total: int, count: int) -> bool:
        """Whether a total that the API has announced has come, where the last page has that many records."""
        del count
        return self._rows >= total or self._is_one_empty_page(total)

    def _is_one_empty_page(self, total: int) -> bool:
        """Whether a total of 1 may be that of the pages, of which there is one without a record."""
        return total == self._pages == 1 and not self._rows

    def _check_end(self, count: int, word: Word) -> None:
        """Raises SourceError where the API says that there is more."""
        if word.total is not None and not self._has_come(word.total, count):
            raise self._contradiction(f"a total of {word.total}", "total_path")
        if word.more:
            raise self._contradiction("that there is more", "has_more_path")
        if word.link:
            raise self._contradiction("where the next page is", "next_url_path")

    def _contradiction(self, word: str, option: str) -> SourceError:
        records = f"{self._rows} {'record' if self._rows == 1 else 'records'}"
        place = self._paths.get(option)
        return self._error(
            f"says {word}{f' (`{place}`)' if place else ''}, and {records} came",
            f"Where that means something else, write `{option}: null` under `paginator:`.",
        )

    def _word(self, response: Response) -> Word:
        document = response.json()
        found = {name: next((match.value for match in path.find(document)), None) for name, path in self._paths.items()}
        header = "next" in response.links and self._options.get("next_url_path", "") is not None
        return Word(
            total=self._total(found.get("total_path")),
            more=self._more(found.get("has_more_path")),
            link=self._type in COUNTED and (header or bool(found.get("next_url_path"))),
        )

    @property
    def _needs_total(self) -> bool:
        return self._options.get("total_path") is not None

    def _total(self, value: Any) -> int | None:
        text = "" if isinstance(value, bool) else str(value)
        if text.isascii() and text.isdecimal() and len(text) < 20:
            return int(text)
        if self._needs_total:
            raise self._error(
                f"answered without a total at `{self._paths['total_path']}`",
                "`total_path:` says where it is; with `total_path: null`, an empty page is the last one.",
            )
        return None

    def _more(self, value: Any) -> bool | None:
        found = BOOLEANS.get(value.lower()) if isinstance(value, str) else value if isinstance(value, bool) else None
        if self._options.get("has_more_path") is None:
            return found or None  # of a field that nobody has stated, only that there is more
        if found is None:
            raise self._error(
                f"answered without true or false at `{self._paths['has_more_path']}`",
                "`has_more_path:` says where it is.",
            )
        return found

    def _is_new(self, *what: Any) -> bool:
        """Whether there was no such thing in this pass."""
        text = deep(lambda: repr(what))
        known = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        new = known not in self._seen
        self._seen.add(known)
        return new

    def _error(self, message: str, hint: str = "") -> SourceError:
        return SourceError(
            f"{self._place} {message}", hint=" ".join(filter(None, (f"{HOW[self._type]}.", hint, NOTHING)))
        )


class CountedPages(Pages):
    """Pages that are asked for by a number."""

    def __init__(self, options: Mapping[str, Any], *, records: str | None, none: tuple[int, ...]) -> None:
        super().__init__(options, records=records, none=none)
        self._limit = options.get(str(self.maximum))
        bounded = self._limit is not None or options.get("has_more_path") is not None
        self._ends = bounded or "total_path" in self._paths
        """Whether something else than an empty page says where the pages end."""
        self._counts = not bounded and "total_path" in self._paths
        if not self._ends and options.get("stop_after_empty_page") is False:
            raise ConfigError("http: paginator: `stop_after_empty_page: false` leaves nothing that ends the pages")

    @property
    def _needs_total(self) -> bool:
        return self._counts or super()._needs_total

    @property
    def _is_limited(self) -> bool:
        return self._limit is not None and self._asks.current_value >= self._limit

    @property
    def _position(self) -> int:
        return int(self._asks.current_value - self._asks.base_index)

    def _ended(self, count: int, word: Word) -> bool:
        if word.total is not None and self._position >= word.total:
            return True
        return word.more is False or self._is_limited or (not count and not self._ends)

    def _has_come(self, total: int, count: int) -> bool:
        return (total > 0 or not self._rows) and self._agrees(total, count)

    def _agrees(self, total: int, count: int) -> bool:
        """See `_has_come`, of a total that is one."""
        return super()._has_come(total, count)


class NumberedPages(CountedPages):
    """Pages by their numbers. A total counts pages, or records: that shows when as many have come and no more come."""

    maximum = "maximum_page"
    _skipped = 0

    def _goes_on(self, response: Response, count: int, word: Word) -> bool:
        del response
        self._asks.current_value += 1
        if count and self._skipped:
            raise self._error(f"answered page {self._skipped} without records, and a later one with some", "Run again.")
        if self._ended(count, word):
            return False
        if not count and word.total is not None and self._rows == word.total > self._position + 1:
            # As many records as the total says. If it counts pages all the same, the last of them has some.
            self._skipped = self._pages
            self._asks.current_value = self._asks.base_index + word.total - 1
        return True

    def _agrees(self, total: int, count: int) -> bool:
        last = self._position >= total and (bool(count) or self._rows >= total)
        return last or self._rows == total or self._is_one_empty_page(total)


class OffsetPages(CountedPages):
    """Pages by the number of records before them, for which each page but the last one must be as long as asked for."""

    maximum = "maximum_offset"
    _short = 0

    def _goes_on(self, response: Response, count: int, word: Word) -> bool:
        del response
        limit = self._asks.value_step
        short = 0 < count < limit
        self._asks.current_value += count or limit
        ended = self._ended(count, word)
        more = word.more is True or (word.total is not None and not ended)
        if (count and self._short) or (short and more) or (count > limit and not ended):
            size = self._short or count
            raise self._error(
                f"answered {size} records for `limit: {limit}`, and has more",
                f"Each page but the last must be full: state `limit: {size}` if that is what the API gives at most.",
            )
        self._short = count if short else self._short
        return not ended

    def _agrees(self, total: int, count: int) -> bool:
        full = count >= self._asks.value_step
        return self._asks.initial_value + self._rows >= total and not (full and total < self._position)


COUNTED = frozenset({"single_page", "page_number", "offset"})
"""The types that follow no link."""
WHERE_IT_ENDS = "If it repeats its last page, state where the pages end: `total_path:`, `has_more_path:` or a maximum."
