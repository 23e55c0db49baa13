"""Commands that start no Spark: what they say, where they say it, and how they end."""

import json

import pytest

import tidegate as package
from tidegate.cli.app import COMMANDS, QUARANTINE_COMMANDS, STATE_COMMANDS


def test_help_and_version(tidegate):
    said = tidegate()
    assert said.exit_code == 0
    assert all(f"  {name} " in said.out for name in (*COMMANDS, "state", "quarantine"))
    assert tidegate("--version").out == f"tidegate {package.__version__}\n"
    commands = [(name,) for name in COMMANDS]
    commands += [("state", name) for name in STATE_COMMANDS] + [("quarantine", name) for name in QUARANTINE_COMMANDS]
    for words in commands:
        said = tidegate(*words, "--help")
        assert said.exit_code == 0, words
        for option in ("--project", "--json", "--quiet", "--log-level", "--log-format"):
            assert option in said.out, (words, option)


@pytest.mark.parametrize(
    "words",
    [
        ["rn"],
        ["run", "--paralel", "2"],
        ["run", "--parallel", "0"],
        ["state", "set", "orders"],
        ["run", "--log-level", "x"],
    ],
)
def test_usage_errors_end_with_2(words, tidegate):
    said = tidegate(*words)
    assert (said.exit_code, said.out) == (2, "")
    assert said.err.startswith("error[usage]: ")
    document = tidegate(*words, "--json").document
    assert (document["exit_code"], document["error"]["code"]) == (2, "usage")


def test_check_lists_the_streams(folder, tidegate):
    said = tidegate("check")
    assert said.exit_code == 0
    cells = said.out.splitlines()[1].split()
    assert " ".join(cells) == "orders ok shop: orders sequence append lake.shop.orders"
    document = tidegate("check", "--json").document
    assert [stream["problems"] for stream in document["streams"]] == [[], []]
    quiet = tidegate("check", "--quiet")
    assert (quiet.out, quiet.err) == ("", "")
    assert not (folder / ".tidegate").exists()


def test_check_tells_what_does_not_fit(folder, tidegate):
    file = folder / "tidegate.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("write: append", "write: replace"), encoding="utf-8")
    said = tidegate("check")
    assert said.exit_code == 2
    assert "error[incompatible]:" in said.err


def test_a_wrong_key_is_one_error_with_its_line(folder, tidegate):
    file = folder / "tidegate.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("key: [id]", "kye: [id]"), encoding="utf-8")
    said = tidegate("run")
    assert (said.exit_code, said.out) == (2, "")
    assert (
        said.err.splitlines()[0]
        == "error[config]: tidegate.yaml:6: streams.orders.kye: unknown key; did you mean 'key'?"
    )
    assert "Traceback" not in said.err
    document = tidegate("run", "--json").document
    assert set(document) == {"error", "exit_code"}
    assert set(document["error"]) == {"code", "message", "hint"}


def test_a_folder_without_a_project(tidegate):
    said = tidegate("status", "--project", "elsewhere")
    assert (said.exit_code, "there is no project file elsewhere/tidegate.yaml" in said.err) == (2, True)


def test_plan_moves_nothing(folder, tidegate):
    said = tidegate("plan", "orders")
    assert said.exit_code == 0
    assert said.out.startswith("orders -> lake.shop.orders: changed (sequence, 2 rows")
    (plan,) = tidegate("plan", "orders", "--json").document["streams"]
    assert plan["outcome"] == "changed"
    assert plan["slices"][0]["action"] == "LOAD"
    assert plan["slices"][0]["rows"] == 2
    assert not (folder / "warehouse").exists()


@pytest.mark.usefixtures("folder")
def test_select_and_names(tidegate):
    assert [plan["stream"] for plan in tidegate("plan", "--select", "it*", "--json").document["streams"]] == ["items"]
    assert tidegate("plan", "--select", "x*").exit_code == 2


@pytest.mark.usefixtures("folder")
def test_status_history_and_tasks_of_a_project_that_never_ran(tidegate):
    listed = tidegate("status", "--json").document["streams"]
    assert [(each["stream"], each["last_outcome"], each["status"]) for each in listed] == [
        ("orders", None, "NEW"),
        ("items", None, "NEW"),
    ]
    assert [line.split()[:2] for line in tidegate("status").out.splitlines()[1:]] == [
        ["orders", "never"],
        ["items", "never"],
    ]
    assert tidegate("history", "orders", "--json").document == {"stream": "orders", "runs": []}
    assert tidegate("tasks", "--json").document == {"tasks": []}
    assert tidegate("history", "orders").out == "orders: no runs yet; `tidegate run orders` starts one\n"


@pytest.mark.usefixtures("folder")
def test_state_show_before_the_first_run(tidegate):
    document = tidegate("state", "show", "orders", "--json").document
    assert (document["table_exists"], document["table"], document["registry"], document["agree"]) == (
        False,
        None,
        None,
        True,
    )
    assert "does not exist yet" in tidegate("state", "show", "orders").out


def test_doctor_names_what_is_missing(folder, tidegate, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(folder))
    said = tidegate("doctor", "--json")
    findings = {finding["name"]: finding for finding in said.document["findings"]}
    assert said.exit_code == 1
    assert findings["registry"]["ok"]
    assert not findings["java"]["ok"]
    assert "apt-get install" in findings["java"]["hint"]
    assert "error[java]:" in tidegate("doctor").err


def test_schema_is_json_and_names_of_any_kind_can_be_printed(folder, tidegate):
    assert json.loads(tidegate("schema").out)["title"] == "tidegate.yaml"
    file = folder / "tidegate.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("  items:", '  "emoji 🙂 [x]":'), encoding="utf-8")
    assert "emoji 🙂 [x]" in tidegate("check").out


def test_intervals_and_lateness_of_one_stream(folder, tidegate):
    said = tidegate("status", "orders", "--json")
    assert (said.exit_code, said.document) == (0, {"stream": "orders", "intervals": [], "gaps": []})
    told = tidegate("status", "--late", "orders")
    assert (told.exit_code, told.out) == (
        0,
        "orders: no load of this stream had a lookback; give its strategy a `lookback:`\n",
    )
    assert tidegate("status", "--late", "orders", "--json").document["rows"] == 0
    for option in ("--select", "--exclude"):
        both = tidegate("status", "orders", option, "orders")
        assert both.exit_code == 2
        assert "--select and --exclude would have no effect" in both.err
    refused = tidegate("status", "--late")
    assert (refused.exit_code, refused.out) == (2, "")
    assert "--late needs exactly one stream" in refused.err


CHECKSUM = """\
connections: {shop: {url: "sqlite:///shop.db"}}
streams:
  orders:
    source: {connection: shop, table: main.orders}
    target: lake.shop.orders
    key: [id]
    strategy: {kind: checksum, type: by_integer, column_name: id, modulus: 2}
    write: replace
"""


def test_checksum_tasks_lists_what_a_run_would_do(folder, tidegate):
    (folder / "tidegate.yaml").write_text(CHECKSUM, encoding="utf-8")
    for words in (["orders"], ["--table", "main.orders"], ["--force"]):
        found = tidegate("checksum-tasks", "shop", *words, "--validate-only", "--json")
        assert found.exit_code == 0, found
        tasks = found.document["streams"][0]["tasks"]
        assert [(task["extract_group_id"], task["action"], task["rows"]) for task in tasks] == [
            ("0", "LOAD", 1),
            ("1", "LOAD", 1),
        ]
    told = tidegate("checksum-tasks", "shop", "orders")
    assert "2 tasks generated, 2 inserted" in told.out
    for words in ([], ["orders", "--force"], ["--table", "orders"], ["nobody"]):
        refused = tidegate("checksum-tasks", "shop", *words)
        assert (refused.exit_code, "error[config]" in refused.err) == (2, True), words


def test_checksum_tasks_fail_when_the_source_does(folder, tidegate):
    (folder / "tidegate.yaml").write_text(CHECKSUM.replace("main.orders}", "main.gone}"), encoding="utf-8")
    found = tidegate("checksum-tasks", "shop", "orders", "--json")
    assert (found.exit_code, found.document["exit_code"]) == (1, 1)
    assert found.document["streams"][0]["error"]["code"]


@pytest.mark.usefixtures("folder")
def test_show_of_a_table_that_is_not_there(tidegate):
    said = tidegate("show", "orders")
    assert (said.exit_code, said.out) == (4, "")
    assert "the table lake.shop.orders of stream 'orders' does not exist yet" in said.err
    assert "`tidegate run orders`" in said.err


ALERTS = """\
alerts:
  channels:
    chat: {url: "${TIDEGATE_TEST_CHAT:-}"}
    mail: {url: "${TIDEGATE_TEST_MAIL}"}
"""


def test_a_channel_that_is_switched_off_is_no_error(folder, tidegate):
    """One whose variable is missing is: nobody has switched it off."""
    with (folder / "tidegate.yaml").open("a") as project:
        project.write(ALERTS.rpartition("    mail")[0])
    for words in (["test"], ["test", "chat"]):
        said = tidegate("alerts", *words)
        assert (said.exit_code, said.out, said.err) == (0, "chat: switched off, for its `url:` is empty\n", "")
    assert tidegate("alerts", "test", "--json").document == {"channels": {}, "off": ["chat"], "exit_code": 0}
    assert "chat: all streams, switched off: its `url:` is empty" in tidegate("alerts", "list").out
    assert tidegate("alerts", "list", "--json").document["channels"]["chat"]["on"] is False
    assert tidegate("alerts", "check").exit_code == 0
    with (folder / "tidegate.yaml").open("a") as project:
        project.write("    mail" + ALERTS.rpartition("    mail")[2])
    for words in (["alerts", "test"], ["alerts", "check"]):
        said = tidegate(*words)
        assert (said.exit_code, "TIDEGATE_TEST_MAIL" in said.err) == (1, True)
    assert "chat: switched off" in tidegate("alerts", "test").out


def test_a_demo_in_a_folder_of_somebody_else_is_a_usage_error(tidegate, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    done = tidegate("demo", str(folder), "--json")
    assert (done.exit_code, done.document["error"]["code"]) == (2, "config")
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
