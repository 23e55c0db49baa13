"""Encryption of connections to database servers: beyond this machine verified by default, alike for both drivers."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable
from pathlib import Path

from tidegate.core.addresses import is_loopback
from tidegate.errors import SourceRefused

VERIFIED = "verify-full"
SYSTEM = "system"
READABLE = frozenset({"disable", "allow", "prefer"})
"""Modes in which others on the network may read what is sent."""
# Where systems keep the authorities that they trust, as Go's crypto/x509 lists them.
BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


WARNED = READABLE | {"require"}
"""Modes that are warned of: encrypted to a server that nobody verifies, somebody in between can still read it all."""


def is_local(hosts: Iterable[str]) -> bool:
    """Whether all of these are this machine: loopback, or a socket file.

    Example:
        >>> is_local(["127.0.0.1", ""]), is_local(["/run/postgresql"]), is_local(["localhost", "db.example"])
        (True, True, False)
    """
    return all(not host or host[0] in "/@" or is_loopback(host) for host in hosts)


def authorities() -> str:
    """The file of the authorities that this system trusts. Every driver gets it, as each would look elsewhere."""
    stated = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    found = next((path for path in (stated, *BUNDLES) if path and Path(path).is_file()), None)
    if found is None:
        import certifi  # noqa: PLC0415 - only on a system without such a file

        return certifi.where()
    return found


def warning(name: str, mode: str, hosts: Iterable[str]) -> str | None:
    """What people should know of a connection whose server the project does not have verified; None of any other.

    `verify-ca` asks for an authority's certificate, under whatever name, and is not warned of.
    """
    if mode not in WARNED or is_local(hosts):
        return None
    if mode not in READABLE:
        return unverified_server(name, f"sslmode={mode}", f"sslmode={VERIFIED}")
    return (
        f"connection {name!r}: others on the network may read and change what is sent (sslmode={mode}); "
        f"sslmode={VERIFIED} encrypts it and verifies the server"
    )


def unverified_server(name: str, stated: str, better: str) -> str:
    """The warning for an encrypted connection to a server whose identity is not verified."""
    return (
        f"connection {name!r}: the server is not verified, so that somebody on the way who poses as it may read and "
        f"change what is sent ({stated}); {better} verifies it"
    )


def unverified(name: str, where: str, reason: str) -> SourceRefused:
    """A server whose certificate, or lack of one, ended the connection."""
    hint = (
        f"Name the authority of its certificate, `?sslmode={VERIFIED}&sslrootcert=/path/to/ca.pem`, under a host name "
        "that the certificate has. In a network that you trust, `?sslmode=require` encrypts without verifying, and "
        "`?sslmode=disable` does neither."
    )
    return SourceRefused(f"connection {name!r}: {where} could not be verified: {reason}", hint=hint)
