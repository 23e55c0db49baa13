"""Servers are verified by both drivers, Python's and Spark's: real servers with certificates that are right and wrong.

The address is one of this machine beyond loopback, where nothing has to be stated for it.
"""

from __future__ import annotations

import os
import shutil
import time

import pytest
from py4j.protocol import Py4JJavaError

from support.certificates import REFUSED, Certificates, own_address
from support.mariadb import MariadbServer
from support.postgres import PostgresServer
from support.workspace import Workspace
from tidegate.core.ids import Connection
from tidegate.dialects.mariadb import Mariadb
from tidegate.dialects.postgresql import Postgresql
from tidegate.errors import SourceRefused

ADDRESS = own_address()
PASSWORD = "of-the-loader"
REASON = {"expired": "expired", "other-host": "another host", "unknown": "an authority that is not trusted"}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.postgres,
    pytest.mark.skipif(ADDRESS is None, reason="this machine has no address but loopback"),
]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates.made(tmp_path_factory.mktemp("certificates"))


class Postgres:
    """PostgreSQL that takes logins over TLS alone, with the certificate that a test wants."""

    scheme, dialect = "postgresql", Postgresql()
    in_use = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    encrypted = True

    def __init__(self, certificates):
        self.certificates = certificates
        self.server = PostgresServer.new(listen_addresses="*")
        with self.server.connect() as admin:
            admin.execute(f"CREATE ROLE loader LOGIN PASSWORD '{PASSWORD}'")
            admin.execute("CREATE TABLE orders (id int PRIMARY KEY)")
            admin.execute("INSERT INTO orders VALUES (1), (2), (3)")
            admin.execute("GRANT SELECT ON orders TO loader")
        with (self.server.data / "pg_hba.conf").open("a") as rules:
            rules.write("hostssl all loader 0.0.0.0/0 scram-sha-256\nhostnossl all loader 0.0.0.0/0 scram-sha-256\n")
        self.port, self.place, self.table = self.server.port, "postgres", "public.orders"

    def show(self, name):
        """Makes the certificate the server's; None switches TLS off."""
        with self.server.connect() as admin:
            if name is not None:
                self.certificates.put(name, self.server.data)
                for file in ("server.crt", "server.key"):
                    if os.geteuid() == 0:
                        shutil.chown(self.server.data / file, "postgres", "postgres")
            admin.execute(f"ALTER SYSTEM SET ssl = {'on' if name else 'off'}")
            before = self._loaded()
            admin.execute("SELECT pg_reload_conf()")
        while self._loaded() == before:  # a session of before says nothing of what the next one is given
            time.sleep(0.05)

    def _loaded(self):
        with self.server.connect() as session:
            return session.execute("SELECT pg_conf_load_time()").fetchone()

    def drop(self):
        self.server.drop()


class Maria:
    """MariaDB likewise."""

    scheme, dialect = "mariadb", Mariadb()
    in_use = "SELECT VARIABLE_VALUE <> '' FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'Ssl_cipher'"
    encrypted = 1

    def __init__(self, certificates):
        self.certificates, self.folder = certificates, certificates.folder / "mariadb"
        self.folder.mkdir()
        certificates.put("good", self.folder)
        self.server = MariadbServer.new(
            bind_address="0.0.0.0", ssl_cert=f"{self.folder}/server.crt", ssl_key=f"{self.folder}/server.key"
        )
        self.server.run(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id int PRIMARY KEY)",
            "INSERT INTO shop.orders VALUES (1), (2), (3)",
            f"CREATE USER loader@'%' IDENTIFIED BY '{PASSWORD}'",
            "GRANT SELECT ON shop.orders TO loader@'%'",
        )
        self.port, self.place, self.table = self.server.port, "shop", "shop.orders"

    def show(self, name):
        """Makes the certificate the server's."""
        self.certificates.put(name, self.folder)
        self.server.run("FLUSH SSL")

    def drop(self):
        self.server.drop()


@pytest.fixture(scope="module", params=[Postgres, Maria], ids=["postgresql", "mariadb"])
def server(request, certificates):
    found = request.param(certificates)
    yield found
    found.drop()


@pytest.fixture
def trusted(certificates, monkeypatch):
    """The authority is one that the system trusts."""
    monkeypatch.setenv("SSL_CERT_FILE", certificates.authority)


def connection(server, options="", host=ADDRESS):
    url = f"{server.scheme}://loader:{PASSWORD}@{host}:{server.port}/{server.place}{options}"
    return Connection(name="shop", url=url)


def asked(server, options="", host=ADDRESS):
    """Whether the connection is encrypted, as the server says."""
    session = server.dialect.open(connection(server, options, host))
    try:
        ((found,),) = session.rows(server.in_use)
        return found
    finally:
        session.close()


def test_a_server_is_verified_by_the_authorities_of_the_system(server, trusted):
    server.show("good")
    assert asked(server) == server.encrypted


@pytest.mark.parametrize("name", REFUSED)
def test_a_certificate_that_is_not_right_ends_the_connection(server, trusted, name):
    server.show(name)
    with pytest.raises(SourceRefused) as caught:
        asked(server)
    assert "could not be verified" in caught.value.message
    assert REASON[name] in caught.value.message
    assert "sslrootcert" in caught.value.hint
    assert PASSWORD not in f"{caught.value}{caught.value.hint}"


def test_an_authority_that_only_the_url_names(server, certificates):
    server.show("good")
    with pytest.raises(SourceRefused, match="could not be verified"):
        asked(server)
    stated = f"?sslrootcert={certificates.authority}"
    assert asked(server, stated) == server.encrypted
    assert asked(server, stated, host="localhost") == server.encrypted
    server.show("other-host")
    for host in (ADDRESS, "localhost"):  # a stated authority counts on loopback, too
        with pytest.raises(SourceRefused, match="another host"):
            asked(server, stated, host)
    assert asked(server, f"?sslmode=verify-ca&sslrootcert={certificates.authority}") == server.encrypted
    server.show("unknown")
    for mode in ("verify-ca", "verify-full"):
        with pytest.raises(SourceRefused, match="could not be verified"):
            asked(server, f"?sslmode={mode}&sslrootcert={certificates.authority}")
    with pytest.raises(SourceRefused, match="`sslrootcert` cannot be read"):
        asked(server, "?sslrootcert=/nowhere/ca.pem")


def test_what_the_url_says_counts(server):
    server.show("unknown")
    assert asked(server, "?sslmode=require") == server.encrypted
    assert asked(server, "?sslmode=disable") != server.encrypted


def test_a_server_without_tls_is_refused(certificates, trusted):
    server = Postgres(certificates)
    try:
        server.show(None)
        with pytest.raises(SourceRefused, match="it offers no TLS"):
            asked(server)
        assert asked(server, "?sslmode=prefer") is False
        assert asked(server, host="127.0.0.1") is False
    finally:
        server.drop()
    plain = MariadbServer.new(bind_address="0.0.0.0", skip_ssl="1")
    try:
        plain.run("CREATE USER loader@'%'", "CREATE DATABASE shop", "GRANT SELECT ON shop.* TO loader@'%'")
        url = f"mariadb://loader@{ADDRESS}:{plain.port}/shop"
        with pytest.raises(SourceRefused, match="it offers no TLS"):
            Mariadb().open(Connection(name="shop", url=url))
        Mariadb().open(Connection(name="shop", url=f"{url}?sslmode=disable")).close()
    finally:
        plain.drop()


@pytest.mark.spark
def test_sparks_driver_does_the_same(server, certificates, trusted, spark, tmp_path):
    """With the properties of a session that got through, against certificates that are put in place afterwards."""
    server.show("good")
    workspace = Workspace(folder=tmp_path)
    source = {"connection": "shop", "table": server.table}
    stream = {"source": source, "target": "lake.shop.orders", "key": ["id"], "strategy": "full", "write": "replace"}
    workspace.write({"orders": stream}, connections={"shop": {"url": connection(server).url}})
    report = workspace.run(spark=spark)
    assert report.exit_code == 0, report.streams[0].error
    assert workspace.rows("shop.orders") == [{"id": 1}, {"id": 2}, {"id": 3}]

    for options in ("", f"?sslmode=require&sslrootcert={certificates.authority}", "?sslmode=require"):
        server.show("good")
        session = server.dialect.open(connection(server, options))
        session.hold(server.dialect.relation(*server.table.split(".")))
        jdbc = session.jdbc()
        session.close()
        # The snapshot went with its session.
        properties = {name: text for name, text in jdbc.properties.items() if name != "sessionInitStatement"}
        read = spark.read.format("jdbc").option("url", jdbc.url).options(**properties)
        rows = read.option("query", server.in_use.replace("pg_backend_pid()", "pg_backend_pid() LIMIT 1"))
        assert [row[0] for row in rows.load().collect()] == [server.encrypted]
        for name in REFUSED:
            server.show(name)
            through = options == "?sslmode=require" or (
                options and (server.scheme == "mariadb" or name == "other-host")
            )
            if through:
                assert asked(server, options) == server.encrypted
                assert rows.load().count() == 1
                continue
            with pytest.raises(Py4JJavaError, match=r"(?i)certificat|hostname|SSL"):
                rows.load().count()
            with pytest.raises(SourceRefused):
                asked(server, options)
