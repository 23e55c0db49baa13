"""What the files under `deploy/` say is what the program takes."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from support.dashboard import project, seeded
from tidegate import config
from tidegate.cli.app import main
from tidegate.engine.assemble import assemble
from tidegate.engine.assemble.selection import Choice
from tidegate.loaders import job
from tidegate.service.web.settings import TOKEN
from unit.service.web.conftest import client_of

DEPLOY = Path(__file__).parents[3] / "deploy"
SECRETS = ("REGISTRY_URL", "CATALOG_URL", "SHOP_URL")


def documents(name):
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


def container(document):
    spec = document["spec"]
    return (spec.get("jobTemplate", {}).get("spec") or spec)["template"]["spec"]["containers"][0]


def commands():
    yield "cronjob", container(documents("kubernetes/cronjob.yaml")[0])["args"]
    yield "deployment", container(documents("kubernetes/deployment.yaml")[0])["args"]
    (line,) = documents("compose.yaml")[0]["services"]["tidegate"]["command"]
    yield "compose", shlex.split(line.partition("exec tidegate ")[2])
    unit = (DEPLOY / "systemd/tidegate.service").read_text(encoding="utf-8")
    yield "systemd", shlex.split(re.search(r"^ExecStart=\S+/tidegate (.*)$", unit, re.MULTILINE)[1])
    chart = DEPLOY / "helm/tidegate/templates"
    words = (chart / "service.yaml").read_text(encoding="utf-8")
    yield "helm service", ["serve", *re.findall(r"- (--[a-z-]+=\w\S+)", words)]
    yield "helm cronjob", json.loads(re.search(r"args: (\[.*\])", (chart / "cronjob.yaml").read_text("utf-8"))[1])


@pytest.mark.parametrize(("where", "words"), list(commands()))
def test_the_program_knows_the_command(where, words, capsys):
    assert main([*words, "--help"]) == 0, where
    assert words[0] in capsys.readouterr().out
    assert main([*words, "--no-such-option", "--help"]) == 2


def test_the_projects_are_valid(tmp_path):
    projects = [
        documents("kubernetes/project.yaml")[0]["data"]["tidegate.yaml"],
        documents("helm/tidegate/values.yaml")[0]["project"],
    ]
    for text in projects:
        (tmp_path / "tidegate.yaml").write_text(text, encoding="utf-8")
        environ = dict.fromkeys(SECRETS, "postgresql://reader:secret@127.0.0.1:1/shop")
        found = config.load(tmp_path, environ=environ)
        assert found.registry.startswith("postgresql:"), "the disk of a pod ends with it"
        assert [each.name for each in assemble.streams(found, assemble.formats(found), Choice())] == ["orders"]


def test_secrets_of_the_project_are_in_the_secret():
    settings, secret = documents("kubernetes/project.yaml")
    wanted = set(re.findall(r"\$\{(\w+)\}", settings["data"]["tidegate.yaml"]))
    assert wanted == set(SECRETS)
    assert set(secret["stringData"]) == wanted | {TOKEN}


def test_a_probe_is_answered_by_the_name_that_it_gives(tmp_path):
    pod = container(documents("kubernetes/deployment.yaml")[0])
    asked = pod["livenessProbe"]["httpGet"]
    names = {each["name"]: each["value"] for each in asked["httpHeaders"]}
    service = seeded(project(tmp_path, 1), runs_each=1)
    hosts = (pod["args"][pod["args"].index("--allow-host") + 1],)
    client = client_of(service, host="0.0.0.0", hosts=hosts)
    assert client.get(asked["path"], headers=names).status_code == 200
    assert client.get(asked["path"], headers={"Host": "10.0.0.7:8471"}).status_code == 400
    service.close()


def test_jobs_of_clusters_have_the_arguments_of_the_loaders():
    task = json.loads((DEPLOY / "databricks/job.json").read_text(encoding="utf-8"))["tasks"][0]
    (step,) = json.loads((DEPLOY / "emr/steps.json").read_text(encoding="utf-8"))
    words = step["HadoopJarStep"]["Args"]
    for given in (task["spark_python_task"]["parameters"], words[words.index("timestamp") :]):
        found = job.parser().parse_args(given)
        assert (found.pattern, found.timestamp_column) == ("timestamp", "modified_date")


def test_steps_of_emr_name_the_python_of_the_driver_and_of_the_executors():
    """That of the cluster may be older than what the loaders need."""
    (step,) = json.loads((DEPLOY / "emr/steps.json").read_text(encoding="utf-8"))
    words = step["HadoopJarStep"]["Args"]
    settings = dict(words[place + 1].split("=", 1) for place, word in enumerate(words) if word == "--conf")
    pythons = [settings[f"spark.{env}.PYSPARK_PYTHON"] for env in ("yarn.appMasterEnv", "executorEnv")]
    assert len(set(pythons)) == 1
    (version,) = {tuple(map(int, re.search(r"python(\d+)\.(\d+)$", each).groups())) for each in pythons}
    project = (DEPLOY.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert version >= tuple(map(int, re.search(r'requires-python = ">=(\d+)\.(\d+)', project).groups()))


def test_steps_of_emr_have_the_form_that_its_client_sends():
    session = pytest.importorskip("botocore.session").get_session()
    from botocore.validate import ParamValidator

    shape = session.get_service_model("emr").operation_model("AddJobFlowSteps").input_shape
    steps = json.loads((DEPLOY / "emr/steps.json").read_text(encoding="utf-8"))
    report = ParamValidator().validate({"JobFlowId": "j-1", "Steps": steps}, shape)
    assert not report.has_errors(), report.generate_report()
