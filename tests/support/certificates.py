"""Certificates of servers for tests, made by openssl: one that is right, and those that a client has to refuse."""

from __future__ import annotations

import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

REFUSED = ("expired", "other-host", "unknown")


def own_address() -> str | None:
    """An address of this machine other than loopback; None if it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return None
        found = str(probe.getsockname()[0])
    return None if found.startswith("127.") or found == "0.0.0.0" else found


@dataclass(frozen=True)
class Certificates:
    """An authority, and by name the certificates and keys of a server: `good` and those of REFUSED."""

    folder: Path

    @classmethod
    def made(cls, folder: Path) -> Certificates:
        """All of them, for every address of this machine; that of another host names another one."""
        made = cls(folder)
        made._authority("ca")
        made._authority("stranger")
        here = ["DNS:localhost", "IP:127.0.0.1", *([f"IP:{address}"] if (address := own_address()) else [])]
        made._server("good", "ca", here)
        made._server("expired", "ca", here, dates=("20200101000000Z", "20200201000000Z"))
        made._server("other-host", "ca", ["DNS:elsewhere.example", "IP:192.0.2.77"])
        made._server("unknown", "stranger", here)
        return made

    @property
    def authority(self) -> str:
        """The file of the authority that is trusted."""
        return str(self.folder / "ca.pem")

    def put(self, name: str, folder: Path) -> None:
        """Makes a certificate that of the server whose files are in the folder."""
        (folder / "server.crt").write_bytes((self.folder / f"{name}.pem").read_bytes())
        (folder / "server.key").write_bytes((self.folder / f"{name}.key").read_bytes())
        (folder / "server.key").chmod(0o600)

    def _authority(self, name: str) -> None:
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign"),
            *("-keyout", f"{name}.key", "-out", f"{name}.pem"),
        )

    def _server(self, name: str, by: str, names: list[str], dates: tuple[str, str] | None = None) -> None:
        self._openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", f"{name}.key", "-out", f"{name}.csr"),
        )
        (self.folder / f"{name}.cnf").write_text(
            "[ca]\ndefault_ca=own\n[own]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\n"
            "policy=any\nunique_subject=no\nrand_serial=yes\nx509_extensions=server\n[any]\ncommonName=supplied\n"
            f"[server]\nsubjectAltName={','.join(names)}\nextendedKeyUsage=serverAuth\n"
        )
        (self.folder / "index").write_text("")
        span = ("-startdate", dates[0], "-enddate", dates[1]) if dates else ("-days", "2")
        self._openssl(
            *("ca", "-batch", "-notext", "-config", f"{name}.cnf", "-cert", f"{by}.pem", "-keyfile", f"{by}.key"),
            *("-in", f"{name}.csr", "-out", f"{name}.pem", *span),
        )

    def _openssl(self, *words: str) -> None:
        done = subprocess.run(
            ["openssl", *words], cwd=self.folder, capture_output=True, text=True, check=False, timeout=60
        )
        if done.returncode:
            raise RuntimeError(f"openssl {words[0]} ended with {done.returncode}:\n{done.stderr}")
