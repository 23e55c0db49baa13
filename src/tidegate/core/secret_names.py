"""Says what a secret is, by a setting's name or a place in a URL: one definition for masks, command lines and logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tidegate.core.cutting import CUT

# Read by Java, too, as `spark.redaction.regex`.
SECRET_NAME = re.compile(
    r"(?i)secret|passw|pwd|passphrase|token|credential|authorization|cookie|jaas|user[.]info|header[.]|"
    r"connection[-_.]?string|shared[-_.]?access|"
    r"(access|account|private|api|(^|[-_.])x|sse|encryption|customer|shared|signing|auth)[-_.]?key"
)


MASK = "***"
_SHORT_WORD = re.compile(r"[a-z]{1,7}|[0-9]{1,7}")
# The password ends before the last @ of a word, for it may hold one, or where the text was cut. A number before a slash
# is a port. Of HTTP a user without a password is a token; elsewhere it is a name. Lengths are bounded, so that no text
# takes long.
_LOGIN = re.compile(
    rf"""(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{{0,30}}:/{{1,2}}[^\s/?\#@:'"`<>]{{0,200}}:(?!\d{{1,5}}(?:[/?\#,\[]|$))"""
    rf"""(?P<password>[^\s'"`<>]{{1,400}}?)(?:@(?![^\s'"`<>]{{0,400}}@)|(?={re.escape(CUT)}))"""
    rf"""|https?:/{{1,2}}(?P<token>[^\s/?\#@:'"`<>]{{1,400}})@""",
    re.IGNORECASE | re.VERBOSE,
)


def pattern_of(secret: str) -> str:
    r"""The regular expression, of Python and of Java, for a secret in a text.

    A short word of small letters is one as a whole word only, so that a password `app` leaves "applied" alone.

    Example:
        >>> re.findall(pattern_of("app"), "applied to app"), re.findall(pattern_of("a.B"), "xa.Bx")
        (['app'], ['a.B'])
    """
    if _SHORT_WORD.fullmatch(secret):
        return rf"(?<![A-Za-z0-9]){secret}(?![A-Za-z0-9])"
    return re.escape(secret)


def spans_of(text: str, secret: str) -> Iterator[tuple[int, int]]:
    """Where the text has the secret: the span of each, of those that overlap too.

    Example:
        >>> list(spans_of("aXaXa", "aXa")), list(spans_of("-Duser=user", "user"))
        ([(0, 3), (2, 5)], [(7, 11)])
    """
    if _SHORT_WORD.fullmatch(secret):
        yield from (each.span() for each in re.finditer(pattern_of(secret), text))
        return
    start = text.find(secret)
    while start >= 0:
        yield start, start + len(secret)
        start = text.find(secret, start + 1)


def logins(text: str) -> Iterator[tuple[int, int]]:
    """Where the text has the password of a URL, whether or not anybody knows it: the span of each.

    Example:
        >>> list(logins("s3://KEY:pw@bucket"))
        [(9, 11)]
    """
    if ":/" in text:  # few texts have one, and every text is looked at
        for found in _LOGIN.finditer(text):
            yield found.span("password" if found["password"] is not None else "token")


def without_logins(text: str) -> str:
    """The text without the passwords of URLs: what masks where no secrets are known.

    Example:
        >>> without_logins("no postgresql://app:s3cret@host/db, and no https://token@host"), without_logins("http://a:80/")
        ('no postgresql://app:***@host/db, and no https://***@host', 'http://a:80/')
    """
    return masked(text, logins(text))


def redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """A JSON document without secrets, its structure and numbers as they are: only texts are masked.

    Example:
        >>> redacted({"at": [1, True, "see 1"]}, lambda text: text.replace("1", MASK))
        {'at': [1, True, 'see ***']}
    """
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {without_logins(str(key)): redacted(item, redact) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item, redact) for item in value]
    return value


def masked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with a mask for each span, and one for those that overlap.

    Example:
        >>> masked("my pass word", [(8, 12), (3, 7), (5, 7)])
        'my *** ***'
    """
    parts, done = [], 0
    for start, end in sorted(spans):
        if start >= done:
            parts += [text[done:start], MASK]
        done = max(done, end)
    return "".join([*parts, text[done:]])
