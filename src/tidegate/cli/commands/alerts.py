"""The commands `alerts test`, `alerts list` and `alerts check`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from tidegate.cli.commands.status import moment
from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table
from tidegate.core.spelling import suggest
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.alerts.check import Checked
    from tidegate.api import Project
    from tidegate.config.alerts import Channel
    from tidegate.core.incidents import Incident

CODE = "alert_undelivered"
HINT = "Correct the channel's `url:`, or what it refers to, then run `tidegate alerts test`."


def tried(
    shell: Shell,
    channels: Annotated[
        list[str] | None, Argument(metavar="CHANNEL", help="Names of channels; all if none is given.")
    ] = None,
) -> int:
    """Sends a test message to each channel that is not switched off. Ends with 1 if one did not take it."""
    from tidegate.alerts.channels import send  # noqa: PLC0415 - few commands need it

    with shell.project() as project:
        known = _channels(project)
        for name in channels or ():
            if name not in known:
                raise ConfigError(f"there is no channel {name!r}; {suggest(name, known)}", hint="See `alerts:`.")
        name = project.config.name
        title, body = f"{name}: test", f"This is a test of the alerts of project {name}. Nothing is wrong."
        absent = {each: error.message for each, error in project.config.alerts.absent.items()}
        asked = tuple(dict.fromkeys(channels or known))
        off = [each for each in asked if each not in absent and not known[each].url]
        on = [each for each in asked if each not in off]
        found = {each: absent.get(each) or send(each, known[each].url, title, body) for each in on}
    if shell.as_json:
        shell.document({"channels": found, "off": off, "exit_code": int(any(found.values()))})
    for each in off:
        shell.result(f"{each}: switched off, for its `url:` is empty")
    for each, problem in found.items():
        if problem is None:
            shell.result(f"{each}: sent")
        else:
            shell.problem(code=CODE, message=f"{each}: {problem}", hint=HINT)
    return int(any(found.values()))


def listed(shell: Shell) -> int:
    """Lists the open incidents, and the channels with what they take."""
    with shell.project() as project:
        incidents, options = project.registry.incidents.open(), project.config.alerts
    if shell.as_json:
        routes = {
            name: {"tags": each.tags, "owners": each.owners, "on": bool(each.url)}
            for name, each in options.channels.items()
        }
        shell.document({"incidents": [_document(each) for each in incidents], "channels": routes})
        return 0
    rows = tuple(
        (
            each.stream,
            each.rule.partition(":")[0],
            moment(each.opened_at),
            each.why.replace(".\n", ". ").replace("\n", ". "),
        )
        for each in incidents
    )
    shell.table(Table(columns=("stream", "rule", "since", "why"), rows=rows), none="no open incidents")
    for name, each in options.channels.items():
        off = options.absent[name].message if name in options.absent else "its `url:` is empty"
        takes = [*(f"tag {tag}" for tag in each.tags), *(f"owner {owner}" for owner in each.owners)]
        shell.result(f"{name}: {', '.join(takes) or 'all streams'}{'' if each.url else f', switched off: {off}'}")
    return 0


def check(shell: Shell) -> int:
    """Looks at every stream and sends what people have to know. For cron; `watch` does it by itself.

    Ends with 1 if a channel did not take a message of the last day, or refers to what is not there.
    """
    from tidegate.alerts.check import check_alerts  # noqa: PLC0415 - as above

    with shell.project() as project:
        _channels(project)
        found = check_alerts(project.config, project.lakes, project.registry, datetime.now(UTC))
        absent = project.config.alerts.absent
    exit_code = int(bool(found.undelivered or absent))
    if shell.as_json:
        shell.document({**_result(found), "absent": [each.message for each in absent.values()], "exit_code": exit_code})
        return exit_code
    for kind in ("opened", "repeated", "recovered"):
        for each in getattr(found, kind):
            shell.result(f"{each.stream}: {kind}: {each.rule.partition(':')[0]}")
    for notice, why in found.undelivered:
        shell.problem(code=CODE, message=f"{notice.channel}: {notice.title!r}: {why}", hint=HINT)
    for error in absent.values():
        shell.problem(code=CODE, message=error.message, hint=error.hint)
    return exit_code


def _channels(project: Project) -> dict[str, Channel]:
    """Raises ConfigError where there is none."""
    known = dict(project.config.alerts.channels)
    if not known:
        raise ConfigError("the project has no channel for alerts", hint="Add one: `alerts: {channels: {…: {url: …}}}`.")
    return known


def _result(found: Checked) -> dict[str, Any]:
    kinds = {kind: [_document(each) for each in getattr(found, kind)] for kind in ("opened", "repeated", "recovered")}
    undelivered = [{"channel": each.channel, "title": each.title, "error": why} for each, why in found.undelivered]
    return {**kinds, "sent": found.sent, "undelivered": undelivered}


def _document(incident: Incident) -> dict[str, Any]:
    times = {"opened_at": incident.opened_at.isoformat(), "announced_at": incident.announced_at.isoformat()}
    return {**asdict(incident), **times}
