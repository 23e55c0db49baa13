"""`tidegate explain`: every error leads to a text that the package itself holds."""

import json

import pytest

from tidegate.cli import explanations
from tidegate.cli.app import main


@pytest.mark.parametrize("code", [code for code, _, _ in explanations.overview()])
def test_every_code_is_explained(code, capsys):
    assert main(["explain", code]) == 0
    text = capsys.readouterr().out
    assert len(text) > 60
    assert "](" not in text, "a link is of no use on a terminal"
    assert "###" not in text


def test_the_codes_are_listed(capsys):
    assert main(["explain"]) == 0
    assert "history_gone" in capsys.readouterr().out
    assert main(["explain", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["codes"]
    assert {"code": "lease_held", "exit_code": 5, "meaning": "another runner is working on the stream"} in listed


def test_a_code_may_be_copied_with_its_brackets(capsys):
    assert main(["explain", "error[verify_failed]", "--json"]) == 0
    assert "--repair" in json.loads(capsys.readouterr().out)["explanation"]


def test_a_misspelt_code_is_suggested(capsys):
    assert main(["explain", "histroy_gone"]) == 2
    assert "did you mean 'history_gone'?" in capsys.readouterr().err


def test_an_error_says_where_more_is_said(capsys, tmp_path):
    assert main(["check", "--project", str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith("  more: `tidegate explain config`\n")
