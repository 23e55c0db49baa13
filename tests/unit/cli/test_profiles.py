"""Every command says which environment it is in."""

import json

import pytest

from tidegate.cli.app import main


@pytest.fixture(autouse=True)
def profile(folder):
    file = folder / "tidegate.yaml"
    file.write_text(f"{file.read_text()}profiles:\n  prod: {{}}\n")


@pytest.mark.parametrize("command", ["plan", "check", "doctor", "status"])
def test_every_command_names_the_profile(command, folder, capsys, monkeypatch):
    monkeypatch.setenv("TIDEGATE_ENV", "prod")
    main([command, "--project", str(folder)])
    assert "profile: prod" in capsys.readouterr().err
    main([command, "--project", str(folder), "--json"])
    assert json.loads(capsys.readouterr().out)["profile"] == "prod"


def test_an_unknown_profile_names_those_that_there_are(folder, capsys):
    assert main(["plan", "--project", str(folder), "--env", "prd"]) == 2
    assert "there is no profile 'prd'; did you mean 'prod'?" in capsys.readouterr().err
