"""Sends messages by Apprise, which knows mail servers, webhooks and chats; never shows an address."""

from __future__ import annotations

import functools
import logging
from typing import Any

from tidegate import extras
from tidegate.errors import ConfigError, EnvironmentMissing

REFUSED = "the channel refused the message or cannot be reached"


TYPES = {"opened": "warning", "repeated": "warning", "recovered": "success"}
"""Of each kind of notice the type that a channel shows, for example by its colour."""


def send(name: str, url: str, title: str, body: str, kind: str | None = None) -> str | None:
    """Sends a message now; None if the channel took it, else why not.

    Args:
        kind: of the notice; None for a test.

    Raises:
        EnvironmentMissing: the extra `alerts` is not installed.
    """
    apprise = _apprise()
    try:
        channel, shown = _channel(name, url), TYPES.get(kind or "", "info")
        taken = channel.notify(body=body, title=title, body_format=apprise.NotifyFormat.TEXT, notify_type=shown)
    except ConfigError as error:
        return error.message
    except Exception as error:  # noqa: BLE001 - a service of any kind; its text may hold the address
        return f"{REFUSED} ({type(error).__name__})"
    return None if taken else REFUSED


def _channel(name: str, url: str) -> Any:
    apprise = _apprise()
    channel = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Tidegate", app_desc="Tidegate", async_mode=False))
    if not channel.add(url):
        raise ConfigError(
            f"alerts.channels.{name}.url: it is no address that Apprise knows",
            hint="Use one such as mailto://, slack:// or jsons://; https://appriseit.com lists them.",
        )
    return channel


@functools.cache
def _apprise() -> Any:
    try:
        import apprise  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise EnvironmentMissing(
            "alerts need the package apprise, which is not installed", hint=extras.hint("alerts")
        ) from error
    log = logging.getLogger("apprise")  # its lines may hold addresses
    log.addHandler(logging.NullHandler())
    log.propagate = False
    return apprise
