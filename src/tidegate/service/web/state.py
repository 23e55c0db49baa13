"""What every page of the dashboard shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse

import tidegate
from tidegate.engine.proof import ProofReport, proof
from tidegate.service.web import rendering
from tidegate.service.web.facts import Facts, Line
from tidegate.service.web.pages import Pages
from tidegate.service.web.port import ServicePort
from tidegate.service.web.settings import WebSettings
from tidegate.service.web.tables import Tables

SAID = {
    "run": "The stream runs as soon as a place is free.",
    "verify": "The table is compared with its source as soon as a place is free.",
    "repair": "The table is compared with its source and repaired as soon as a place is free.",
    "pause": "The stream is off its schedule.",
    "resume": "The stream is on its schedule again.",
    "acknowledge": "The error is marked as seen.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The service, what was asked of it, and how pages are made.

    Args:
        form_token: what a form of a session carries, by session and path.
    """

    service: ServicePort
    settings: WebSettings
    facts: Facts
    pages: Pages
    tables: Tables
    templates: Environment
    form_token: Callable[[str, str], str]

    def page(self, request: Request, name: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        config, session = self.service.project.config, request.scope["session"]
        common = {
            "here": request.url.path,
            "project": config.folder.name + (f" ({config.profile})" if config.profile else ""),
            "version": tidegate.__version__,
            "now": datetime.now(UTC),
            "who": request.scope["who"],
            "read_only": self.settings.read_only,
            "actions": not self.settings.read_only,
            "said": SAID.get(request.query_params.get("done", ""), ""),
            "form": lambda path: self.form_token(session, path),
        }
        return rendering.page(self.templates, name, {**common, **values}, status=status)

    def proofs(self, lines: Sequence[Line]) -> ProofReport:
        """What is proven of these streams, by the tables that were read in the background."""
        streams = [line.status for line in lines]
        tables = self.tables.states([each.stream for each in streams if each.sequence])
        return proof(self.service.registry, streams, tables, datetime.now(UTC))

    def message(self, request: Request, title: str, text: str, *, hint: str = "", status: int = 400) -> HTMLResponse:
        return self.page(request, "message.html", title=title, text=text, hint=hint, status=status)
