"""The five screens: each asks the registry with limits, and renders a template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tidegate.core.display import counted, short_duration
from tidegate.core.health import Health
from tidegate.core.lateness import Lateness
from tidegate.engine.maintenance.maintain import TASK as MAINTAIN
from tidegate.engine.savings import savings
from tidegate.registry import recent
from tidegate.registry.values import RunRecord
from tidegate.service.web import charts, run_facts, stream_facts
from tidegate.service.web.facts import DAYS, PAGE, Line, StreamFilter, last_days
from tidegate.service.web.ledger_calendar import TEXT
from tidegate.service.web.rendering import number, size
from tidegate.service.web.state import State

RUNS = 100
SAVED_DAYS = 30
TASKS = ("load", "load_partition", "measure_partition", "repair")


def overview(request: Request) -> Response:
    """Every stream, those first that need a person."""
    state = _state(request)
    lines = state.facts.lines()
    return state.pages.answer(request, lines, lambda: _overview(request, state, lines))


def _overview(request: Request, state: State, lines: Sequence[Line]) -> Response:
    now, wanted = datetime.now(UTC), StreamFilter.of(request.query_params)
    found = wanted.among(lines)
    shown, last = _part(found, wanted.page)
    counted = [(kind, sum(line.health is kind for line in lines)) for kind in Health]
    return state.page(
        request,
        "overview.html",
        rows=_rows(state, shown, now),
        wanted=wanted,
        last=last,
        days=DAYS,
        states=list(Health),
        counts=[each for each in counted if each[1]],
        tags=sorted({tag for line in lines for tag in line.entry.tags}),
        address=lambda to: _address(request, page=to),
    )


def _rows(state: State, lines: Sequence[Line], now: datetime) -> list[dict[str, Any]]:
    uids, days = [line.status.uid for line in lines], last_days(now)
    since = datetime.combine(days[0], datetime.min.time(), UTC)
    registry = state.service.registry
    moved = registry.ask(lambda connection: recent.activity(connection, uids, since))
    good = registry.ask(lambda connection: recent.last_successes(connection, uids))
    return [
        {
            "name": line.name,
            "tags": line.entry.tags,
            "health": line.health,
            "acknowledged": line.status.acknowledged_at is not None,
            "fresh": line.age(now),
            "schedule": line.schedule,
            "lag": _lag(line, good.get(line.status.uid, {}), now),
            "proven": f"{short_duration(now - line.status.verified_at)} ago" if line.status.verified_at else "never",
            "spark": _sparkline(moved.get(line.status.uid, {}), [day.isoformat() for day in days]),
        }
        for line in lines
    ]


def _sparkline(moved: Mapping[str, tuple[int, int]], days: Sequence[str]) -> Markup:
    found = [(day, *moved.get(day, (0, 0))) for day in days]
    total = sum(rows for _, rows, _ in found)
    bars = [(day, float(rows), "bad" if failed else "ok" if rows else "none") for day, rows, failed in found]
    return charts.sparkline(bars, f"{counted(total, 'row')} in {len(days)} days")


def _lag(line: Line, outcome: Mapping[str, Any], now: datetime) -> str:
    """What is known to be behind: events that the last run of a log left, and the time since a turn was due."""
    found = [counted(outcome["log_behind"], "event")] if outcome.get("log_behind") else []
    due = line.status.due_at
    known = line.status.last_run_at or line.status.registered_at
    found += [f"{short_duration(now - due)} overdue"] if due is not None and due < now and known else []
    return ", ".join(found) or "none"


def stream(request: Request) -> Response:
    """One stream: its runs, plan, position, partitions, quality and table."""
    state, name = _state(request), request.path_params["name"]
    line = state.facts.line(name)
    if line is None:
        return _unknown(request, name)
    registry, uid = state.service.registry, line.status.uid
    runs = registry.history(uid, RUNS) if uid else []
    plans = registry.ask(lambda connection: recent.plans_of(connection, uid, limit=20))
    view = state.tables.read(name) if "table" in request.query_params else None
    heat = stream_facts.heat(registry, uid, request.query_params.get("until", ""))
    wanted = "table" in request.query_params and state.settings.show_data
    return state.page(
        request,
        "stream.html",
        here="/",
        line=line,
        runs=runs,
        plan=plans[0] if plans else None,
        durations=_durations(runs),
        volumes=_volumes(runs),
        heat=heat,
        squares=[(charts.key(each), TEXT[each]) for each in stream_facts.SQUARES],
        gaps=registry.intervals(uid).gaps[:50] if uid else (),
        table=stream_facts.table(view) if "table" in request.query_params else (),
        rules=stream_facts.rules(line.entry),
        quarantined=sum((run.details or {}).get("rows_quarantined", 0) for run in runs),
        warned=sum((run.details or {}).get("rows_warned", 0) for run in runs),
        waiting=stream_facts.waiting(state.service, line) if "table" in request.query_params else {},
        samples=stream_facts.samples(state.service, line) if wanted else [],
        show_data=state.settings.show_data,
        changed=stream_facts.changes_of_columns(plans),
        lateness=Lateness.of((run.details or {})["arrivals"] for run in runs if (run.details or {}).get("arrivals")),
        changes=registry.changes(uid, 20) if uid else [],
    )


def _durations(runs: Sequence[RunRecord]) -> Markup:
    spent = [float(((run.details or {}).get("seconds") or {}).get("total") or 0) for run in runs]
    highest = f"at most {number(max(spent, default=0.0))} s"
    return charts.columns(_bars(runs, spent), f"Seconds of the last {len(runs)} runs, {highest}", highest)


def _volumes(runs: Sequence[RunRecord]) -> Markup:
    kinds = ("rows_inserted", "rows_updated", "rows_deleted")
    rows = [float(sum((run.details or {}).get(kind, 0) for kind in kinds)) for run in runs]
    highest = f"at most {max(rows, default=0):,.0f} rows"
    return charts.columns(_bars(runs, rows), f"Rows of the last {len(runs)} runs, {highest}", highest)


def _bars(runs: Sequence[RunRecord], values: Sequence[float]) -> list[charts.Bar]:
    """Oldest first, each in the colour of its outcome."""
    found = zip(runs, values, strict=True)
    return [(f"{run.started_at:%Y-%m-%d %H:%M}", value, run.outcome) for run, value in found][::-1]


def run(request: Request) -> Response:
    """One run of one stream: stages, rows, fingerprints, log."""
    state, name, run_id = _state(request), request.path_params["name"], request.path_params["run_id"]
    line = state.facts.line(name)
    found = state.service.registry.run(line.status.uid, run_id) if line is not None else None
    if line is None or found is None:
        return _unknown(request, f"{name}, run {run_id}")
    registry, uid, facts = state.service.registry, line.status.uid, found.details or {}
    records = registry.ask(lambda connection: recent.run_log(connection, uid, run_id))
    log = registry.log(uid, run_id)
    return state.page(
        request,
        "run.html",
        here="/",
        stream=name,
        run=found,
        facts={**dict.fromkeys(("bytes_read", "strategy", "write", "snapshot", "notes")), **facts},
        stages=run_facts.waterfall(found, log),
        measured=bool(log.lines),
        aside=any(line.get("background") for line in log.lines),
        prints=stream_facts.fingerprints(records),
        log=run_facts.lines(log),
        records=[{**each, "facts": {"error": None, "reason": None, **each["facts"]}} for each in records],
        plans=registry.ask(lambda connection: recent.plans_of(connection, uid, run_id, limit=20)),
    )


def proofs(request: Request) -> Response:
    """What is proven of which table."""
    state = _state(request)
    lines = sorted(state.facts.lines(), key=lambda line: line.name)
    number_ = StreamFilter.of(request.query_params).page
    shown, last = _part(lines, number_)
    report = state.proofs(shown)
    return state.page(
        request, "proof.html", report=report, number=number_, last=last, address=lambda to: _address(request, page=to)
    )


def proof_report(request: Request) -> Response:
    """The whole report, as one page to keep."""
    state = _state(request)
    text = state.service.project.config.redact(state.proofs(state.facts.lines()).to_html())
    name = {"Content-Disposition": 'attachment; filename="tidegate-proof.html"'}
    return HTMLResponse(text, headers=name)


def lakes(request: Request) -> Response:
    """Tables, maintenance, what was not read, backfills."""
    state = _state(request)
    lines = sorted(state.facts.lines(), key=lambda line: line.name)
    number_ = StreamFilter.of(request.query_params).page
    shown, last = _part(lines, number_)
    uids, registry = [line.status.uid for line in shown], state.service.registry
    views = state.tables.known([line.name for line in shown if line.status.sequence])
    kept = registry.ask(lambda connection: recent.last_tasks(connection, uids, MAINTAIN))
    rows = {name: view.rows for name, view in views.items()}
    since = datetime.now(UTC) - timedelta(days=SAVED_DAYS)
    return state.page(
        request,
        "lakes.html",
        tables=[_table(line, views.get(line.name), kept.get(line.status.uid)) for line in shown],
        saved=savings(registry, [line.status for line in shown], rows, since),
        backfills=registry.ask(recent.backfill_progress),
        days=SAVED_DAYS,
        number=number_,
        last=last,
        address=lambda to: _address(request, page=to),
    )


def _table(line: Line, view: Any, task: Any) -> dict[str, Any]:
    kept = (task.result_payload or {}).get("tables", ()) if task is not None else ()
    saved = [each["saved"] for each in kept if each.get("saved")]
    files, freed = (sum(each.get(name) or 0 for each in saved) for name in ("files", "bytes"))
    return {
        "name": line.name,
        "target": line.status.target,
        "rows": view.rows if view else None,
        "files": view.facts.files if view else None,
        "bytes": view.facts.bytes if view else None,
        "maintained": task.finish_ts if task is not None else None,
        "steps": list(dict.fromkeys(done["step"] for each in kept for done in each["steps"])),
        "saved": f"{number(files)} files, {size(freed)}" if saved else "-",
    }


def _part(lines: Sequence[Line], wanted: int) -> tuple[Sequence[Line], int]:
    last = max((len(lines) + PAGE - 1) // PAGE, 1)
    first = (min(wanted, last) - 1) * PAGE
    return lines[first : first + PAGE], last


def _address(request: Request, **changed: object) -> str:
    kept = {name: value for name, value in request.query_params.items() if name in ("q", "tag", "state", "sort")}
    return f"{quote(request.url.path)}?{urlencode({**kept, **changed})}"


def _unknown(request: Request, name: str) -> Response:
    text = f"There is no {name!r} in this project."
    return _state(request).message(request, "Not found", text, status=404)


def _state(request: Request) -> State:
    state: State = request.app.state.tidegate
    return state
