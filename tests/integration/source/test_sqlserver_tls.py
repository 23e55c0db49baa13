"""Whom the driver of SQL Server talks to: no login is sent to a server that has not proved who it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.certificates import REFUSED, Certificates
from support.tds import serving
from tidegate.core.ids import Connection
from tidegate.dialects.sqlserver import SqlServer
from tidegate.errors import SourceRefused

OURS = "the-users-own.conf"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Certificates:
    return Certificates.made(tmp_path_factory.mktemp("certificates"))


def refusal(certificates: Certificates, name: str, options: str) -> tuple[SourceRefused, int]:
    """The error of an attempt to connect, and the logins that the server has got."""
    files = certificates.folder
    with serving(files / f"{name}.pem", files / f"{name}.key") as server:
        url = f"sqlserver://loader:s3cr3t@localhost:{server.port}/shop?{options}&connect_timeout=5"
        with pytest.raises(SourceRefused) as found:
            SqlServer().open(Connection(name="erp", url=url))
        assert "s3cr3t" not in f"{found.value}{found.value.hint}"
        return found.value, server.logins


def test_a_server_that_proves_who_it_is_gets_the_login(certificates, monkeypatch) -> None:
    monkeypatch.setenv("FREETDSCONF", OURS)
    error, logins = refusal(certificates, "good", f"sslrootcert={certificates.authority}")
    assert "refused the login" in str(error)
    assert logins == 1
    assert os.environ["FREETDSCONF"] == OURS


@pytest.mark.parametrize("name", REFUSED)
def test_any_other_server_gets_none(certificates, name: str) -> None:
    error, logins = refusal(certificates, name, f"sslrootcert={certificates.authority}")
    assert "could not be verified" in str(error)
    assert "sslrootcert" in error.hint
    assert logins == 0


def test_require_looks_at_no_certificate(certificates) -> None:
    error, logins = refusal(certificates, "unknown", "sslmode=require")
    assert "refused the login" in str(error)
    assert logins == 1


def test_a_file_of_authorities_that_is_not_there(certificates, tmp_path: Path) -> None:
    error, logins = refusal(certificates, "good", f"sslrootcert={tmp_path}/none.pem")
    assert "does not exist" in str(error)
    assert logins == 0
