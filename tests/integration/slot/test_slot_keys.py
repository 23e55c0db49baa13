"""A key that two rows may have for a moment: the log does not tell which of them is deleted."""

from __future__ import annotations

import pytest

from tidegate.errors import ConfigError, SchemaRefused

pytestmark = pytest.mark.postgres

HANDED_ON = "update orders set id = id + 1"


def test_a_key_that_is_only_checked_later_is_refused(shop):
    shop.sql("create table orders (id bigint primary key deferrable, name text)")
    with pytest.raises(SchemaRefused, match="no primary key, or a DEFERRABLE one"):
        shop.claim()
    shop.sql("alter table orders replica identity full")
    with pytest.raises(ConfigError, match=r"the key id of public\.orders is DEFERRABLE") as refused:
        shop.claim()
    assert '`CREATE UNIQUE INDEX ON "public"."orders" ("id")`' in refused.value.hint
    assert shop.options.retained().exists is False
    with shop.log() as log:
        assert log._table.unique(("id",)), "of rows that are committed no two have one key"


def test_the_index_of_the_hint_keeps_keys_from_being_handed_on(shop):
    shop.sql(
        "create table orders (id bigint primary key deferrable, name text)",
        "insert into orders values (1, 'a'), (2, 'b')",
        HANDED_ON,
        "alter table orders replica identity full",
        'create unique index on "public"."orders" ("id")',
    )
    shop.claim()
    state = shop.after(None).state
    with pytest.raises(Exception, match="duplicate key"):
        shop.sql(HANDED_ON)
    shop.sql("insert into orders values (9, 'c')")
    assert [event.values[0] for event in shop.read(state)[1]] == ["9"]


def test_a_key_that_nothing_enforces_is_refused(shop):
    shop.sql("create table orders (id bigint, v text)", "alter table orders replica identity full")
    with pytest.raises(ConfigError, match="the log does not tell which one changed"):
        shop.claim()
    shop.sql("alter table orders alter id set not null", "create unique index on orders (id)")
    shop.claim()
