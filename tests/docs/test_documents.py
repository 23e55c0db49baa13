"""Every code block of the documents means what it says."""

import ast
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

from tidegate import config, plugins
from tidegate.cli.app import COMMANDS, app
from tidegate.cli.commands.backfill import START, StreamOrCommand
from tidegate.config.checks import Common
from tidegate.config.options import fields
from tidegate.config.project import SECTIONS
from tidegate.config.sections import Contract, SparkOptions
from tidegate.core.ports.format import Layout
from tidegate.errors import ConfigError

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/*.md")])
FENCE = re.compile(r"^```(?P<kind>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block and where it stands."""

    file: Path
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}"


def blocks(*kinds: str) -> list[Block]:
    found = []
    for file in DOCUMENTS:
        text = file.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            if match["kind"].strip() in kinds:
                line = text.count("\n", 0, match.start()) + 1
                found.append(Block(file, line, match["kind"].strip(), match["text"]))
    return found


class Anything(dict):
    """An environment in which every variable is set."""

    def __contains__(self, name):
        return True

    def __missing__(self, name):
        return f"value-of-{name}"


def commands() -> Iterator[tuple[Block, str]]:
    for block in blocks("console", "bash", "sh"):
        for line in block.text.replace("\\\n", " ").splitlines():
            words = line.strip().removeprefix("$ ").removeprefix(".venv/bin/")
            if re.match(r"(\w+=\S+ )*tidegate\b", words):
                yield block, words


def test_there_are_blocks_of_each_kind():
    assert len([block for block in blocks("yaml") if "streams:" in block.text]) >= 2
    assert len(list(commands())) >= 20
    assert blocks("python run")


@pytest.mark.parametrize(
    "block", [block for block in blocks("yaml") if re.search("^streams:", block.text, re.MULTILINE)], ids=str
)
def test_projects_are_projects(block, tmp_path):
    (tmp_path / "tidegate.yaml").write_text(block.text, encoding="utf-8")
    assert config.load(tmp_path, environ=Anything(), trusted="--trust-project" in block.text).streams


@pytest.mark.parametrize(
    "block", [b for b in blocks("yaml") if not re.search("^streams:", b.text, re.MULTILINE)], ids=str
)
def test_parts_of_projects_have_known_keys(block, tmp_path):
    # A key that stands twice shows two ways; each is looked at alone.
    for part in re.split(r"(?m)^(?=registry:)", block.text):
        (tmp_path / "tidegate.yaml").write_text(part, encoding="utf-8")
        if not part.strip():
            continue
        with pytest.raises(ConfigError, match="needs `streams:`") as caught:
            config.load(tmp_path, environ=Anything(), trusted="--trust-project" in part)
        assert not caught.value.context.get("more"), "something else is wrong with it"


@pytest.mark.parametrize(("block", "line"), list(commands()), ids=str)
def test_commands_are_commands(block, line):
    words = [word for word in shlex.split(line, comments=True) if not re.fullmatch(r"\w+=\S+", word)][1:]
    words = words[: words.index(">")] if ">" in words else words
    words = words[: words.index("|")] if "|" in words else words
    if {"--help", "--version"} & set(words) or not words:
        return
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        if words[0] not in command.commands and isinstance(command, StreamOrCommand):
            words.insert(0, START)
        assert words[0] in command.commands, f"{block}: {line}"
        command = command.commands[words.pop(0)]
    command.make_context("tidegate", words)


def test_a_wrong_option_would_be_noticed():
    command = typer.main.get_command(app).commands["run"]
    with pytest.raises(typer.TyperException):
        command.make_context("tidegate", ["--no-such-option"])


@pytest.mark.parametrize("block", blocks("python", "python run", "python test"), ids=str)
def test_python_compiles(block):
    ast.parse(block.text)


@pytest.mark.parametrize("block", blocks("python run"), ids=str)
def test_python_runs(block, tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL)")
    done = subprocess.run(
        [sys.executable, "-c", block.text], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", blocks("python test"), ids=str)
def test_python_tests_pass(block, tmp_path):
    (tmp_path / "test_plugin.py").write_text(block.text, encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_plugin.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_json_is_json(block):
    json.loads(block.text)


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_lead_somewhere(file):
    text = FENCE.sub("", file.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        assert "://" in target or (file.parent / target).exists(), target


def test_every_page_is_in_the_navigation_and_in_the_index():
    pages = {str(file.relative_to(ROOT / "docs")) for file in DOCUMENTS if file.is_relative_to(ROOT / "docs")}
    pages = {page for page in pages if not page.startswith("adr/")} - {"index.md"}  # decisions are listed by the hook
    navigation = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    index = re.findall(r"\]\(([\w/-]+\.md)\)", (ROOT / "docs/index.md").read_text(encoding="utf-8"))
    assert sorted(pages - set(navigation)) == []
    assert sorted(pages - set(index)) == []


def test_every_decision_is_in_the_index_by_its_title():
    folder = ROOT / "docs/adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^- \[(.+)\]\(([\w-]+\.md)\): \S", index, re.MULTILINE)
    listed = [(name, f"# {title}") for title, name in lines]
    titles = [(file.name, file.read_text(encoding="utf-8").partition("\n")[0]) for file in folder.glob("[0-9]*.md")]
    assert sorted(listed) == sorted(titles)
    assert [name for name, title in titles if not title.startswith(f"# {int(name[:4])}. ")] == []


def test_every_command_is_documented():
    text = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if not re.search(rf"tidegate {name}\b", text)] == []


def test_every_key_is_documented():
    text = (ROOT / "docs/config.md").read_text(encoding="utf-8")
    keys = {*SECTIONS, *fields(SparkOptions), *fields(Contract), *fields(Layout), *fields(Common)}
    for group in ("sources", "strategies", "writers", "formats", "envelopes", "checks"):
        for kind in plugins.names(group):
            keys |= {kind, *fields(plugins.load(group, kind))} - {"name", "folder"}
    assert sorted(key for key in keys if f"`{key}`" not in text) == []


def test_the_test_command_of_the_readme_is_what_ci_runs():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert re.search(r"^make test$", readme, re.MULTILINE)
    assert re.search(r"^run make test$", script, re.MULTILINE)
    assert os.access(ROOT / ".ci/run", os.X_OK)
