import os

import pytest

from tidegate.config import inspect, load
from tidegate.config.environment import read_file, variables
from tidegate.errors import ConfigError

PROJECT = """\
connections: {shop: "postgresql://app:${SHOP_PASSWORD}@127.0.0.1/shop"}
profiles: {prod: {}}
streams: {a: {source: {connection: shop, table: a}, target: lake.s.a, strategy: full, write: replace}}
"""


def test_the_process_comes_before_the_profile_and_that_before_the_project(tmp_path):
    (tmp_path / ".env").write_text("A=project\nB=project\nC=project\n")
    (tmp_path / ".env.prod").write_text("A=profile\nB=profile\n")
    found = variables(tmp_path, "prod", {"A": "process"})
    assert [found[name] for name in "ABC"] == ["process", "profile", "project"]
    assert variables(tmp_path, None, {})["A"] == "project"


def test_an_empty_variable_of_the_process_is_one(tmp_path):
    (tmp_path / ".env").write_text("A=project\n")
    assert variables(tmp_path, None, {"A": ""})["A"] == ""


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=plain", "plain"),
        ("export A=plain", "plain"),
        ("A='pa$$ ${B} word' # remark", "pa$$ ${B} word"),
        ('A="two\\nlines"', "two\nlines"),
        ("A=p${B}y", "p${B}y"),
        ("A=p@ss#word", "p@ss#word"),
        ("\ufeffA=with a mark", "with a mark"),
        ("A=windows\r\n", "windows"),
    ],
)
def test_a_value_is_what_is_written(line, value, tmp_path):
    (tmp_path / ".env").write_bytes(line.encode())
    assert read_file(tmp_path / ".env") == {"A": value}


@pytest.mark.parametrize("text", ["A=1\nB\n", "A=1\nB='open Secret77\n", "A=1\n\xff Secret77=2\n"])
def test_a_line_that_is_no_variable_is_an_error_without_its_text(text, tmp_path):
    (tmp_path / ".env").write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError) as caught:
        read_file(tmp_path / ".env")
    assert "Secret77" not in str(caught.value)
    assert str(tmp_path / ".env") in str(caught.value)


def test_the_line_is_named(tmp_path):
    (tmp_path / ".env").write_text("A=1\n\nB\n")
    with pytest.raises(ConfigError, match=r"\.env:3: .*is not NAME=VALUE"):
        read_file(tmp_path / ".env")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read any file")
def test_a_file_that_may_not_be_read_is_an_error(tmp_path):
    (tmp_path / ".env").write_text("A=1\n")
    (tmp_path / ".env").chmod(0)
    with pytest.raises(ConfigError, match="cannot be read: Permission denied"):
        read_file(tmp_path / ".env")


def test_a_project_finds_its_password_beside_it_and_masks_it(tmp_path):
    (tmp_path / "tidegate.yaml").write_text(PROJECT)
    (tmp_path / ".env").write_text("SHOP_PASSWORD='Secret@77'\n")
    config = load(tmp_path, environ={})
    assert config.connection("shop").url == "postgresql://app:Secret%4077@127.0.0.1/shop"
    assert config.redact("Secret@77") == "***"
    (tmp_path / ".env.prod").write_text("SHOP_PASSWORD=Other88\n")
    prod = load(tmp_path, profile="prod", environ={})
    assert prod.connection("shop").url == "postgresql://app:Other88@127.0.0.1/shop"
    assert prod.registry != config.registry


def test_where_to_set_a_variable_is_told(tmp_path):
    (tmp_path / "tidegate.yaml").write_text(PROJECT)
    with pytest.raises(ConfigError) as caught:
        inspect(tmp_path, environ={}).connection("shop")
    assert "export SHOP_PASSWORD=…` or in the file .env" in caught.value.hint
