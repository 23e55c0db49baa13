"""What a hint says can be done: each of its commands exists, and where it is given it leads on."""

import ast
import json
import re
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import typer.main
import yaml

import tidegate
from tidegate.cli.app import app, main

SOURCE = Path(tidegate.__file__).parent
ERRORS = SOURCE.parents[1] / "docs" / "errors.md"
COMMAND = re.compile(r"`tidegate( [^`]*)`")
PROJECT = """\
connections: {shop: {url: "sqlite:///shop.db"}}
streams:
  orders:
    source: {connection: shop, table: orders}
    target: lake.shop.orders
    key: [id]
    strategy: {kind: sequence, column: id}
    write: append
  items:
    source: {connection: shop, table: orders}
    target: lake.shop.items
    key: [id]
    strategy: full
    write: merge
"""


def texts(tree):
    """Every text of a module; what an f-string puts in stands as `1`, which is a name and a number."""
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "1" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value


def hinted():
    found = set(COMMAND.findall(ERRORS.read_text()))
    for module in (file.read_text() for file in SOURCE.rglob("*.py")):
        if "`tidegate " in module:
            for text in texts(ast.parse(module)):
                found.update(COMMAND.findall(text))
    return sorted(found)


def parse(words, command):
    """Parses as the command line does, and runs nothing."""
    if hasattr(command, "commands") and words and words[0] in command.commands:
        parse(words[1:], command.commands[words[0]])
    elif not hasattr(command, "commands"):
        if words:  # a command that is only named
            command.make_context("tidegate", list(words))
    elif words and words[0] != "--help":
        context = command.make_context("tidegate", ["--help"], resilient_parsing=True)
        _, inner, left = command.resolve_command(context, list(words))
        parse(left, inner)


def test_every_command_of_a_hint_exists_with_its_options():
    commands, whole = hinted(), typer.main.get_command(app)
    assert len(commands) > 30
    for command in commands:
        words = [word for word in shlex.split(command.partition(" > ")[0]) if word not in ("…", "COMMAND")]
        parse([re.sub(r"^(N|SEQUENCE)$", "1", word) for word in words], whole)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tidegate.yaml").write_text(PROJECT, encoding="utf-8")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, amount INTEGER)")
        database.execute("INSERT INTO orders VALUES (1, 10), (2, 20)")
    return tmp_path


@pytest.fixture
def call(folder, capsys):
    def call(*words, project=folder):
        exit_code = main([*words, "--project", str(project), "--json"])
        document = json.loads(capsys.readouterr().out)
        assert document.get("exit_code", exit_code) == exit_code
        return document

    return call


def test_a_date_for_a_rollback_is_written_out(call):
    error = call("rollback", "orders", "--to", "2025-03-01", "--yes")["error"]
    assert error["hint"] == "Write --to 2025-03-01T00:00:00Z if it is a time in UTC."
    again = call("rollback", "orders", "--to", "2025-03-01T00:00:00Z", "--yes")["error"]
    assert again["code"] == "version_gone"
    assert again["hint"] == "`tidegate history orders --versions` lists the versions that can be read."
    assert call("history", "orders", "--versions") == {"stream": "orders", "versions": [], "expired": []}


def test_init_with_a_wrong_url_says_how_to_repeat_it(call, folder):
    elsewhere = folder / "new"
    error = call("init", f"sqlite:///{folder}/nothing.db", project=elsewhere)["error"]
    assert error["code"] == "source_refused"
    assert error["hint"] == "Correct the URL, then run `tidegate init URL` again."
    assert call("init", f"sqlite:///{folder}/shop.db", project=elsewhere)["streams"] == ["orders"]


def test_a_misspelt_option_of_a_call_is_recognized(call):
    error = call("plan", "orders", "--set", "wiat=1h")["error"]
    assert error["message"].endswith("did you mean 'wait'?")
    assert call("plan", "orders", "--set", "wait=1s")["streams"][0]["outcome"] == "changed"


def test_a_misspelt_stream_is_recognized(call):
    assert (
        call("plan", "ordres")["error"]["message"] == "'ordres' is not a stream of this project; did you mean 'orders'?"
    )


def test_a_position_for_a_strategy_without_one(call):
    error = call("state", "set", "items", "7")["error"]
    assert error["hint"] == "`tidegate run items` loads every row, whatever the position says."


@pytest.mark.parametrize(
    ("refused", "hinted"),
    [
        ("status --late", ["status --late STREAM"]),
        ("plan --select tag:daily", ["check", "status"]),
        ("proof --html nowhere/proof.html", ["proof --html FILE"]),
        ("rollback orders --to 7 --yes", ["history orders --versions"]),
        ("quarantine replay order", ["check"]),
    ],
)
def test_the_commands_of_a_hint_are_run_where_it_is_given(call, folder, refused, hinted):
    error = call(*refused.split())["error"]
    assert COMMAND.findall(error["hint"]) == [f" {words}" for words in hinted]
    given = {"STREAM": "orders", "FILE": str(folder / "proof.html")}
    for words in hinted:
        assert "error" not in call(*(given.get(word, word) for word in words.split()))


def test_a_column_that_is_not_there_is_named_again_by_the_check_until_it_is_corrected(call, folder):
    file = folder / "tidegate.yaml"
    file.write_text(PROJECT.replace("key: [id]", "key: [idd]", 1), encoding="utf-8")
    (planned,) = call("plan", "orders")["streams"]
    assert "`tidegate check --source`" in planned["error"]["hint"]
    assert "'idd'" in json.dumps(call("check", "--source"))
    file.write_text(PROJECT, encoding="utf-8")
    assert call("check", "--source")["exit_code"] == 0


def test_doctor_tells_a_folder_that_is_not_there(call, folder):
    found = {each["name"]: each for each in call("doctor")["findings"]}
    detail = found["warehouse of lake"]["detail"]
    assert detail.startswith(f"{folder}/warehouse does not exist (unless a disk is not mounted, the first load ")
    (folder / "warehouse").mkdir()
    found = {each["name"]: each for each in call("doctor")["findings"]}
    assert found["warehouse of lake"]["detail"].startswith(f"{folder}/warehouse is writable, ")


@pytest.mark.parametrize("password", ["Top@Secret77", "7/Top@Secret77", "Top#Secret77"])
def test_no_part_of_a_password_that_is_not_encoded_is_shown(folder, capsys, password):
    url = f"postgresql://app:{password}@127.0.0.1:1/shop"
    values = yaml.safe_load(PROJECT)
    values["connections"]["shop"]["url"] = url
    (folder / "tidegate.yaml").write_text(yaml.safe_dump(values))
    new = ["init", url, "--project", str(folder / "new")]
    for words in (["plan"], ["check"], ["check", "--source"], ["doctor"], new):
        assert main(words if words is new else [*words, "--project", str(folder)]) == 2
        said = capsys.readouterr()
        assert "a character that a URL cannot hold" in said.err
        assert "%40" in said.err
        assert not any(part in said.err + said.out for part in ("Secret", "Top"))
