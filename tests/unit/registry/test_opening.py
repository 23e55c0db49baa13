"""Opening a registry kept in SQLite: what is refused, what is left alone, what it costs."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

import tidegate.registry.migrations
from tidegate.errors import ConfigError, RegistryError
from tidegate.registry.owner import is_dead, this_process
from tidegate.registry.reader import RegistryReader
from tidegate.registry.store import Registry
from tidegate.registry.tables import HEAD
from unit.registry.loads import UID, load, publish

NOBODY = 65534


@pytest.fixture
def path(url):
    return Path(url.removeprefix("sqlite:///"))


def opened(url):
    with Registry.open(url) as registry:
        registry.register(uid=UID, name="orders", source="s", target="t")
        publish(registry, load())


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"no database at all, only text that is long enough" * 9,
        lambda _: b"SQLite format 3\0" * 99,
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:4096] + b"\xff" * (len(whole) - 4096),
    ],
    ids=["text", "no more than its beginning", "cut short", "changed in the middle"],
)
def test_a_file_that_is_damaged_is_left_alone(url, path, damage):
    opened(url)
    found = damage(path.read_bytes())
    path.write_bytes(found)
    with pytest.raises(RegistryError, match="damaged") as caught, Registry.open(url) as registry:
        registry.position(UID)
    assert "tidegate state repair" in caught.value.hint
    assert str(path) in caught.value.hint
    assert not caught.value.retryable
    assert path.read_bytes() == found
    path.rename(path.with_suffix(".broken"))
    with Registry.open(url) as registry:
        assert registry.position(UID) is None, "where it was moved away a new one begins"


def test_a_place_that_holds_no_registry(url, path, tmp_path):
    with pytest.raises(RegistryError, match="does not exist"):
        RegistryReader.open(url)
    assert not path.parent.exists(), "reading creates nothing"
    path.parent.write_text("")
    with pytest.raises(RegistryError, match="cannot be created or written") as caught:
        Registry.open(url)
    assert str(path.parent) in caught.value.hint
    with pytest.raises(RegistryError, match="cannot be created or written"):
        Registry.open(f"sqlite:///{tmp_path}")


def _as_nobody(answers, url, existing):
    if os.geteuid() == 0:
        os.setuid(NOBODY)
    for each in (url, existing):
        try:
            with Registry.open(each) as registry:
                registry.register(uid="b", name="b", source="s", target="t")
            answers.put("written")
        except RegistryError as error:
            answers.put((type(error).__name__, str(error), error.hint))


def test_a_place_without_permission():
    with tempfile.TemporaryDirectory() as folder:
        closed = Path(folder) / "closed"
        existing = f"sqlite:///{closed}/registry.db"
        opened(existing)
        (closed / "registry.db").chmod(0o444)
        closed.chmod(0o555)
        Path(folder).chmod(0o755)  # so that `closed` alone is what refuses
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        process = context.Process(target=_as_nobody, args=(answers, f"sqlite:///{closed}/new/registry.db", existing))
        process.start()
        got = [answers.get(timeout=240) for _ in range(2)]
        process.join()
        closed.chmod(0o755)
    for kind, message, hint in got:
        assert kind == "RegistryError"
        assert "cannot be created or written" in message
        assert "write permission" in hint


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "mysql://a:s3cr3t@h/d", "s3cr3t", "oracle+x://s3cr3t"]
)
def test_a_url_that_cannot_hold_a_registry(url):
    with pytest.raises(ConfigError) as caught:
        Registry.open(url)
    assert "s3cr3t" not in str(caught.value) + caught.value.hint


def test_an_up_to_date_registry_opens_without_alembic_and_postgresql(url):
    opened(url)
    program = f"""
import sys
from tidegate.registry.reader import RegistryReader
from tidegate.registry.store import Registry
with Registry.open({url!r}) as registry:
    assert registry.position({UID!r}).position.sequence == 1
    registry.register(uid="new", name="n", source="s", target="t")
    with registry.lease("new"):
        registry.status()
unwanted = ("alembic", "psycopg", "pyspark", "pydantic", "yaml", "sqlalchemy.dialects.postgresql", "sqlalchemy.orm")
print([name for name in unwanted if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=240)
    assert done.stdout.strip() == "[]"


def test_the_newest_migration_is_the_one_that_the_code_names():
    config = Config()
    config.set_main_option("script_location", str(Path(tidegate.registry.migrations.__file__).parent))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_a_process_is_dead_only_when_that_is_certain():
    me = this_process()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        stat = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        other = type(me)(user="u", host=me.host, host_id=me.host_id, pid=child.pid, process_start=stat[19])
        assert not is_dead(other, seen_by=me)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(other, seen_by=me)  # a zombie works no more
    assert is_dead(other, seen_by=me)
    elsewhere = type(me)(user="u", host=me.host, host_id="elsewhere", pid=child.pid, process_start=stat[19])
    assert not is_dead(elsewhere, seen_by=me)
