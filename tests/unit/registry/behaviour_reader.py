"""A read-only registry answers as the writing one does, and the database itself rejects a write."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from tidegate.errors import RegistryError
from tidegate.registry.reader import RegistryReader
from tidegate.registry.store import Registry
from tidegate.registry.tables import VERSION_TABLE
from tidegate.registry.values import Discontinued
from unit.registry.loads import UID, load, publish


def written(registry):
    registry.register(uid=UID, name="orders", source="s", target="t")
    publish(registry, load())


def test_a_reader_answers_as_the_writing_registry(registry, url):
    written(registry)
    with RegistryReader.open(url) as reader:
        assert reader.position(UID) == registry.position(UID) is not None
        assert reader.status() == registry.status()
        assert reader.last_sequence(UID) == registry.last_sequence(UID) == 1


def test_a_reader_sees_what_is_written_while_it_is_open(registry, url):
    written(registry)
    with RegistryReader.open(url) as reader:
        assert reader.discontinued(UID) is None
        registry.mark_discontinued(UID, Discontinued(reason="restored"))
        assert reader.discontinued(UID) == Discontinued(reason="restored")


def test_the_database_rejects_what_a_reader_writes(registry, url):
    written(registry)
    with RegistryReader.open(url) as reader, pytest.raises(RegistryError):
        Registry(reader._database).mark_discontinued(UID, Discontinued(reason="restored"))
    assert registry.discontinued(UID) is None


def test_a_reader_refuses_the_schema_of_another_version(registry, url, raw):
    with raw.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(RegistryError, match="schema 9999"):
        RegistryReader.open(url)
