"""Kafka Connect's REST API, as far as connectors are configured and asked for their state.

Never shows a login of the URL, nor a secret of a configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from tidegate.core.addresses import refuse_clear_login
from tidegate.core.connector import ConnectorState
from tidegate.core.cutting import cut, first_line
from tidegate.core.secret_names import SECRET_NAME, masked, spans_of
from tidegate.errors import ConfigError, SourceError, SourceRefused, SourceUnavailable

if TYPE_CHECKING:
    import requests

TIMEOUT = 30.0
ABSENT = 404
LONGEST_REFUSAL = 1000


class KafkaConnect:
    """The workers behind a URL, which may hold a login.

    Raises:
        ConfigError: it is no URL, or its login would be sent in the clear.
    """

    def __init__(self, url: str, *, plain_http: bool = False) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("Kafka Connect needs a URL", hint="Use --apply http://HOST:8083.")
        if not plain_http:
            refuse_clear_login(url, "the login of Kafka Connect", "add --plain-http")
        self._login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
        self._url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))
        self.label = f"Kafka Connect at {self._url}"

    def config(self, name: str) -> dict[str, str] | None:
        """The settings of a connector; None where it does not exist."""
        answer = self._ask("GET", f"/connectors/{quote(name, safe='')}/config")
        return None if answer is None else {str(key): str(value) for key, value in answer.items()}

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Creates a connector, or gives it these settings. Raises SourceRefused with the reason of Kafka Connect."""
        secrets = [value for key, value in config.items() if SECRET_NAME.search(key) and not value.startswith("${")]
        self._ask("PUT", f"/connectors/{quote(name, safe='')}/config", config, secrets)

    def state(self, name: str) -> ConnectorState | None:
        """The state of a connector, or of its task where that is another; None where it does not exist."""
        answer = self._ask("GET", f"/connectors/{quote(name, safe='')}/status")
        if answer is None:
            return None
        parts = [answer.get("connector") or {}, *(answer.get("tasks") or ())]
        worst = next((each for each in parts if each.get("state") != "RUNNING"), parts[0])
        trace = str(worst.get("trace") or "").strip()
        reason = first_line(trace) if trace else None
        return ConnectorState(name=name, state=str(worst.get("state")), reason=reason)

    def _ask(self, method: str, path: str, body: Any = None, secrets: list[str] | None = None) -> Any:
        import requests  # noqa: PLC0415 - 0.1 s, and few commands ask

        url = self._url.rstrip("/") + path
        try:
            answer = requests.request(method, url, json=body, auth=self._login, timeout=TIMEOUT, allow_redirects=False)
        except requests.RequestException as error:
            raise SourceUnavailable(
                f"{self.label} does not answer ({type(error).__name__})",
                hint="Correct the URL of its REST API, or start it; then run again.",
            ) from error
        if answer.status_code == ABSENT and method == "GET":
            return None
        if not answer.ok or answer.is_redirect:
            raise self._refused(answer, secrets or [])
        try:
            found = answer.json() if answer.content else {}
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise SourceError(f"{self.label} answers, but not as Kafka Connect does", hint="Correct the URL.")
        return found

    def _refused(self, answer: requests.Response, secrets: list[str]) -> SourceRefused:
        try:
            reason = str(answer.json().get("message") or "")
        except (ValueError, AttributeError):
            reason = ""
        clean = masked(reason, [span for secret in filter(None, secrets) for span in spans_of(reason, secret)])
        said = cut(" ".join(clean.split()), LONGEST_REFUSAL) or "no reason"
        return SourceRefused(
            f"{self.label} refuses with {answer.status_code}: {said}",
            hint="Correct what it names, or its login; then run `tidegate connector STREAM` again.",
        )
