"""`tidegate explain`: every error leads to a text that the package itself holds."""

import json

from tidegate.cli import explanations
from tidegate.cli.app import main


def test_every_code_is_listed_and_explained(capsys):
    codes = [code for code, _, _ in explanations.overview()]
    assert "history_gone" in codes
    for code in codes:
        assert main(["explain", code]) == 0
        text = capsys.readouterr().out
        assert len(text) > 60, code
        assert "](" not in text, f"{code}: a link is of no use on a terminal"
        assert "###" not in text, code
    assert main(["explain"]) == 0
    listed = capsys.readouterr().out
    assert [code for code in codes if code not in listed] == []
    assert main(["explain", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["codes"]
    assert {"code": "lease_held", "exit_code": 5, "meaning": "another runner is working on the stream"} in listed
    assert [each["code"] for each in listed] == codes


def test_a_code_may_be_copied_with_its_brackets_and_a_misspelt_one_is_suggested(capsys, tmp_path):
    assert main(["explain", "error[verify_failed]", "--json"]) == 0
    assert "--repair" in json.loads(capsys.readouterr().out)["explanation"]
    assert main(["explain", "histroy_gone"]) == 2
    assert "did you mean 'history_gone'?" in capsys.readouterr().err
    assert main(["check", "--project", str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith("  more: `tidegate explain config`\n"), "where more is said"
