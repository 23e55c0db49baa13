"""`loads_table:`, a table of one of the lakes that no stream has, and where a project's alerts may be sent."""

import pytest

from tidegate import config
from tidegate.errors import ConfigError

STREAM = {"source": {"path": "a.csv"}, "target": "lake.shop.orders", "strategy": "full", "write": "replace"}


def read(folder, **sections):
    return config.from_dict({"streams": {"orders": STREAM}, **sections}, folder, environ={})


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ops.tidegate_loads", "must be a table of one of `lakes:`"),
        ("other.ops.tidegate_loads", "must be a table of one of `lakes:`"),
        ("lake.shop.orders", "is the table of stream 'orders'"),
        ("lake..orders", "must be names separated by dots"),
    ],
)
def test_the_table_of_loads_is_none_of_a_stream(tmp_path, name, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        read(tmp_path, loads_table=name)
    assert "loads_table" in str(caught.value)
    found = read(tmp_path, loads_table="lake.ops.tidegate_loads")
    assert found.loads_table == ("lake", "ops", "tidegate_loads")


@pytest.mark.parametrize("scheme", ["json", "XML", "form"])
def test_a_webhook_is_not_called_in_the_clear(tmp_path, scheme):
    def of(url, **more):
        return read(tmp_path, alerts={"channels": {"chat": {"url": url, **more}}})

    with pytest.raises(ConfigError, match=rf"alerts\.channels\.chat.*{scheme.lower()}:// sends the address") as caught:
        of(f"{scheme}://hooks.example.com/hidden-token")
    assert "hidden-token" not in f"{caught.value}{caught.value.hint}"
    for url in (f"{scheme}s://hooks.example.com/t", f"{scheme}://127.0.0.1:80/t", f"{scheme}://localhost/t"):
        of(url)
    of(f"{scheme}://hooks.example.com/t", plain_http=True)
