"""The password of a URL is masked wherever the URL stands: in its place, in another one, or on the command line."""

import pytest

SECRET = "S3cretWALRUS77x"
URL = f"postgresql://me:{SECRET}@127.0.0.1:1/shop"
PROJECT = """\
connections: {{shop: "sqlite:///shop.db"}}
streams:
  orders:
    source: {source}
    target: lake.shop.orders
    strategy: full
    write: replace
{more}
"""
TABLE = "{connection: shop, table: orders}"


def shown(said) -> str:
    return said.out + said.err


@pytest.mark.parametrize(
    ("source", "more"),
    [
        (f'{{connection: "{URL}", table: orders}}', ""),
        (f'{{connection: shop, table: "{URL}"}}', ""),
        pytest.param(f'{{delta: "s3://KEY:{SECRET}@bucket/x"}}', "", marks=pytest.mark.slow),  # it is asked for
        (f'{{path: "https://me:{SECRET}@host/x.csv"}}', ""),
        (f'{{path: "https://{SECRET}@host/x.csv"}}', ""),
        (f"{{connection: shop, query: \"SELECT '{URL}' AS id\"}}", ""),
        (TABLE, f'    schedule: {{every: "{URL}"}}'),
        (TABLE, f'  "{URL}": {{source: {TABLE}, target: lake.shop.others, strategy: full, write: replace}}'),
        (TABLE, f"    owner: *{SECRET}"),
        (TABLE, f"    owner: !{SECRET}"),
        (TABLE, f"    owner: &{SECRET} [a, *{SECRET}x]"),
    ],
)
def test_a_password_in_the_project(tidegate, tmp_path, source, more):
    (tmp_path / "tidegate.yaml").write_text(PROJECT.format(source=source, more=more))
    for words in (("check",), ("check", "--json"), ("plan", "--log-level", "debug"), ("doctor",), ("status", "--json")):
        assert SECRET not in shown(tidegate(*words)), words


@pytest.mark.parametrize(
    "words",
    [
        ("run", URL),
        ("run", "--select", URL),
        ("run", "--project", URL),
        ("rollback", "orders", "--to", URL, "--yes"),
        ("explain", URL),
        (URL,),
        ("run", URL, "--json"),
    ],
)
def test_a_password_on_the_command_line(tidegate, tmp_path, words):
    (tmp_path / "tidegate.yaml").write_text(PROJECT.format(source=TABLE, more=""))
    said = tidegate(*words)
    assert said.exit_code != 0
    assert SECRET not in shown(said)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080/x", "s3://bucket/a@b", "postgresql://me@host:5432/shop", "a://b:1,c:2/d"]
)
def test_what_is_no_password_is_shown(tidegate, tmp_path, url):
    (tmp_path / "tidegate.yaml").write_text(PROJECT.format(source=TABLE, more=""))
    assert url in shown(tidegate("run", url)).replace("\n", "")
