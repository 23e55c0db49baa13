"""Cases about what goes wrong: a load that is cancelled, a connection that is lost, a login that is wrong."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

from tidegate.api import Project
from tidegate.engine.events import Event, Moment, Stage
from tidegate.errors import SourceRefused, stopping
from tidegate_scenarios.report import State
from tidegate_scenarios.strategy_cases import order
from tidegate_scenarios.streams import NAMESPACE, ORDERS
from tidegate_scenarios.trial import Trial, project_values

GROUP = "faults"
STREAM = "interrupted"
STAGES = (Stage.READ, Stage.WRITE, Stage.ADVANCE)
NOBODY = "tidegate_nobody"
"""A user that no server has, so that no attempt counts against one that it has."""


def try_faults(trial: Trial) -> None:
    """Each fault, and that the next load is right."""
    with trial.guarded(GROUP, "cancelled loads"):
        _cancelled(trial)
    with trial.guarded(GROUP, "a lost connection"):
        _lost(trial)
    with trial.guarded(GROUP, "a wrong login"):
        _wrong_login(trial)


def at(stage: Stage, act: Callable[[], None]) -> Callable[[Event], None]:
    """A listener that acts once, at the beginning of a stage."""
    done: list[bool] = []

    def listen(event: Event) -> None:
        if (event.stage, event.moment) == (stage, Moment.START) and not done:
            done.append(True)
            act()

    return listen


def _cancelled(trial: Trial) -> None:
    """A load is interrupted as by Ctrl-C; readers see all of it or nothing, and the next one is right."""
    orders = trial.tables[ORDERS]
    trial.run(STREAM).raise_on_failure()
    for place, stage in enumerate(STAGES):
        before = trial.found(STREAM)
        orders.insert(order(orders, 300 + place, f"cancelled {stage}", place))
        problem = _interrupted(trial, stage)
        if not problem and trial.found(STREAM) != before:
            problem = trial.compared(STREAM, orders) and "readers see a part of the load"
        trial.record(GROUP, f"cancelled at {stage}: readers see nothing of it", problem)
    outcome = trial.run(STREAM)[STREAM]
    trial.record(GROUP, "a load after cancelled ones", str(outcome.error or "") or trial.compared(STREAM, orders))


def _interrupted(trial: Trial, stage: Stage) -> str:
    def interrupt() -> None:
        raise KeyboardInterrupt

    try:
        outcome = trial.run(STREAM, on_event=at(stage, interrupt))[STREAM]
    except KeyboardInterrupt:
        if stopping.is_set():  # somebody ends the kit itself
            raise
        return ""
    return f"it was not cancelled: {outcome.error or outcome.outcome}"


def _lost(trial: Trial) -> None:
    """The server ends the connections of a load that is about to read."""
    orders, name = trial.tables[ORDERS], "a connection that is lost while a load reads"
    orders.insert(order(orders, 400, "lost", 1))
    ended: list[int | None] = []
    first = trial.run(STREAM, on_event=at(Stage.READ, lambda: ended.append(trial.scratch.disconnect())))[STREAM]
    if ended in ([None], [0]):
        reason = "the kit cannot end connections here" if ended == [None] else "no connection was open"
        trial.record(GROUP, name, reason, state=State.NOT_SUPPORTED)
        return
    problem = "" if ended else "the load did not read"
    if first.error is not None:
        problem = problem or str(trial.run(STREAM)[STREAM].error or "")
    trial.record(GROUP, name, problem or trial.compared(STREAM, orders))


def _wrong_login(trial: Trial) -> None:
    """A user that does not exist is refused by an error that shows no password."""
    name, parts = "a wrong login is refused, and not shown", urlsplit(trial.scratch.connection.url)
    if not parts.hostname:
        trial.record(GROUP, name, "a file has no login", state=State.NOT_SUPPORTED)
        return
    password = secrets.token_hex(12)
    login = f"{NOBODY}:{password}@{parts.netloc.rpartition('@')[2]}"
    stream = {
        "source": {"connection": "certified", "table": trial.tables[ORDERS].label},
        "target": f"lake.{NAMESPACE}.refused",
        "strategy": "full",
        "write": "replace",
    }
    values = project_values(urlunsplit(parts._replace(netloc=login)), {"refused": stream})
    with Project.from_dict(values, folder=trial.folder / "refused", trusted=True) as project:
        found = project.plan("refused")["refused"]
    problem = str(found.error or "the server takes any login")
    if found.error is not None and password in f"{found.error} {found.error.hint}":
        problem = "the error shows the password"
    elif found.error is not None and found.error.code == SourceRefused.code:
        problem = ""
    elif parts.password is None:
        # It may be a server that knows no passwords, and its dialect sends one over TLS alone.
        trial.record(GROUP, name, problem, state=State.NOT_SUPPORTED)
        return
    trial.record(GROUP, name, problem)
