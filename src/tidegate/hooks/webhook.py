"""The hook `webhook`: a POST of JSON about the load; the receiver can tell a repeated one by its key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from tidegate.core.addresses import in_the_clear
from tidegate.core.ports.hook import PublishedLoad
from tidegate.errors import ConfigError, HookFailed

if TYPE_CHECKING:
    import requests

KEY = "Idempotency-Key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A POST of JSON about the load: project, stream, target, load, version and numbers of rows, never their values.

    Args:
        url: where it is sent, from a reference: `${HOOK_URL}`. All of it is a secret. `https`, or `http` to this
            machine.
        plain_http: send it in the clear to another machine, too, where others on the way can read it.
    """

    kind: ClassVar[str] = "webhook"
    main: ClassVar[str] = "url"

    url: str = field(repr=False)
    plain_http: bool = False

    def __post_init__(self) -> None:
        if _parsed(self.url) is None or self.url.split() != [self.url]:
            raise ConfigError("`webhook:` needs a URL such as https://host/path")
        if in_the_clear(self.url) and not self.plain_http:
            raise ConfigError(
                "`webhook:` sends its URL, which may hold a token, in the clear",
                hint="Write https://…; or, where everybody on the way may read it, set `plain_http: true`.",
            )

    @property
    def label(self) -> str:
        """The host alone: the rest of a URL may hold a token."""
        return f"webhook at {(_parsed(self.url) or ('', '?'))[1]}"

    def refuse(self) -> None:
        """Nothing: the URL is looked at when the project is read."""

    def run(self, load: PublishedLoad, *, seconds: float, ended: Callable[[], bool]) -> None:  # noqa: ARG002 - a request cannot ask
        """Sends it once; anything but an answer 2xx is a failure, a redirect too: it could lead the URL's token away.

        Raises:
            HookFailed: says the status or the kind of error, never the URL nor the answer.
        """
        import requests  # noqa: PLC0415 - 0.1 s, and few runs send one

        try:
            with requests.post(
                self.url,
                json=load.to_dict(),
                headers={KEY: f"{load.load_id}@{load.published_at.isoformat()}"},
                timeout=seconds,
                allow_redirects=False,
                stream=True,
            ) as answer:
                status = answer.status_code
        except requests.RequestException as error:
            reason = _reason(error)
        else:
            if 200 <= status < 300:
                return
            moved = "; redirects are not followed" if 300 <= status < 400 else ""
            reason = f"answered {status}{moved}"
        raise HookFailed(reason)


def _reason(error: requests.RequestException) -> str:
    """What kind of error it is; its text may hold the URL."""
    from requests import exceptions  # noqa: PLC0415

    kinds = {
        exceptions.SSLError: "TLS failed, or its certificate could not be verified",
        exceptions.Timeout: "it did not answer in time",
        exceptions.ConnectionError: "the connection failed",
    }
    return next((text for kind, text in kinds.items() if isinstance(error, kind)), type(error).__name__)


def _parsed(url: str) -> tuple[str, str] | None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return None
    return (parts.scheme, host) if parts.scheme in ("http", "https") and host else None
