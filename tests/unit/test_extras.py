"""What is missing is told with a command that installs it, wherever Tidegate came from."""

import re
import runpy
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidegate import extras

ROOT = Path(__file__).parents[2]
KNOWN = ["avro", "connect", "demo", "duckdb", "hive", "kafka", "mariadb", "s3", "trino"]


@pytest.mark.parametrize("extra", KNOWN)
def test_an_extra_is_told_by_its_packages(extra):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    told = extras.hint(extra)
    assert f"the extra `{extra}`: `" in told
    for package in project["optional-dependencies"][extra]:
        assert re.split(r"[=<>~!]", package)[0] in told
    assert "tidegate" not in told.replace(sys.executable, "")


def test_without_metadata_the_extra_alone_is_named(monkeypatch):
    def absent(_name):
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "requires", absent)
    assert extras.hint("s3") == "Install the extra `s3`."
    assert extras.requirement("pyspark") == "pyspark"


def test_every_extra_that_a_message_names_is_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sources = [*ROOT.glob("src/**/*.py"), *ROOT.glob("examples/**/*.py")]
    named = {
        name for file in sources for name in re.findall(r'extras\.hint\("(\w+)"\)', file.read_text(encoding="utf-8"))
    }
    assert named
    assert named <= set(project["optional-dependencies"])


def test_every_extra_is_on_the_page():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert [extra for extra in project["optional-dependencies"] if f"`{extra}`" not in page] == []


@pytest.mark.parametrize(
    ("remote", "home"),
    [
        ("https://user:secret@host.example/owner/name.git", "https://host.example/owner/name"),
        ("git@host.example:owner/name.git", "https://host.example/owner/name"),
        ("ssh://git@host.example:22/owner/name", "https://host.example/owner/name"),
        ("/srv/git/name.git", None),
        ("file:///srv/git/name.git", None),
        ("../name", None),
        ("", None),
    ],
)
def test_a_url_is_that_of_the_remote_and_has_no_login(remote, home, monkeypatch):
    # What builds the package is not installed where it runs.
    interface = SimpleNamespace(MetadataHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    assert runpy.run_path(str(ROOT / "scripts" / "project_urls.py"))["address"](remote) == home
