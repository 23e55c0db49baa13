"""What the page of a run shows of its time: when each stage was at work, and its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup

from tidegate.core.display import counted
from tidegate.engine.events import STAGES
from tidegate.registry.logs import KeptLog
from tidegate.registry.values import RunRecord
from tidegate.service.web import charts
from tidegate.service.web.charts import Span, Stage


def waterfall(run: RunRecord, log: KeptLog) -> Markup | None:
    """The seven stages on one axis of time; None of a run that ended before a stage was through.

    By the times in its log. Without one, as of runs before logs were kept, the stages follow each other.
    """
    stages = _measured(run.started_at, log) if log.lines else _in_order((run.details or {}).get("seconds") or {})
    return charts.waterfall(stages, "Stages") if any(stage.spans for stage in stages) else None


def _measured(started_at: datetime, log: KeptLog) -> list[Stage]:
    found: dict[str, list[Span]] = {str(stage): [] for stage in STAGES}
    for line in log.lines:
        stage, took = line.get("stage"), line.get("seconds")
        if stage in found and took is not None:
            began = max((datetime.fromisoformat(line["at"]) - started_at).total_seconds() - took, 0)
            kind = "background" if line.get("background") else "ok"
            label = f"{took:.2f} s from {began:.2f} s on{' beside other stages' if kind == 'background' else ''}"
            found[stage].append(Span(began=began, took=took, kind=kind, label=label))
    return [Stage(name=name, spans=spans, note=_note(spans)) for name, spans in found.items()]


def _note(spans: Sequence[Span]) -> str:
    """The seconds of a stage; what ran beside other stages is no part of them."""
    own = [span.took for span in spans if span.kind == "ok"]
    return (f"{sum(own):.2f} s" + (f", {len(own)} parts" if len(own) > 1 else "")) if own else "-"


def _in_order(seconds: Mapping[str, float]) -> list[Stage]:
    stages, began = [], 0.0
    for stage in STAGES:
        took = float(seconds.get(stage) or 0)
        spans = [Span(began=began, took=took, kind="ok", label=f"{took:.2f} s")] if took else []
        stages.append(Stage(name=str(stage), spans=spans, note=f"{took:.2f} s"))
        began += took
    return stages


def lines(log: KeptLog) -> list[dict[str, Any]]:
    """The log as it is read: the time of day of each line, and where lines were left out."""
    found = [{"at": datetime.fromisoformat(line["at"]), "text": line["text"]} for line in log.lines]
    if log.left_out:
        text = f"{counted(log.left_out, 'line', 'are')} left out here"
        found.insert(len(found) // 2, {"at": None, "text": text})
    return found
