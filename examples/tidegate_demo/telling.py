"""The text that the demo prints."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

if TYPE_CHECKING:
    from rich.console import Console

    from tidegate.core.outcome import Problem
    from tidegate.engine.preview import PlanReport
    from tidegate_demo.airline import Arrivals
    from tidegate_demo.proof import Proof
    from tidegate_demo.record import Step, Story


@dataclass(slots=True, kw_only=True)
class Teller:
    """Tells the story to a console.

    Args:
        silent: nothing at all.
        brief: only the table at the end, and errors.
    """

    console: Console
    silent: bool = False
    brief: bool = False
    chapter: int = 0

    def opening(self, directory: Path, *, again: bool) -> None:
        """What this is."""
        self._say("[bold]A year of real flights, from a database into Iceberg tables.[/]")
        self._say(f"The project is in {escape(str(directory))}" + (", reset." if again else "."))

    def source(self, rows: Mapping[str, int], database: Path) -> None:
        """What the source holds."""
        self.heading("A source", None, database.parent)
        self._say(f"{escape(str(database))} (SQLite) is an airline's database at midnight of 10 December 2013:")
        words = {"weather": "weather observations"}
        counts = ", ".join(f"{count:,} {words.get(name, name)}" for name, count in reversed(list(rows.items())))
        self._say(f"{counts}. All of them are real.")

    def heading(self, title: str, command: str | None, project: Path, *, why: str = "") -> None:
        """A new chapter, why it matters, and what a user would type for it."""
        self.chapter += 1
        self._say("")
        self._say(f"[bold]{self.chapter}. {title}[/]")
        if why:
            self._say(why)
        if command:
            self._say(f"[dim]$[/] [cyan]{escape(command)} --project {escape(str(project))}[/]")

    def arrivals(self, day: Arrivals) -> None:
        """What a day brought to the source."""
        self.chapter += 1
        self._say("")
        self._say(f"[bold]{self.chapter}. A day passes at the source[/]")
        self._say(
            f"{day.scheduled:,} flights of the next day appear, {day.closed:,} have landed, {day.cancelled:,} are "
            f"cancelled,"
        )
        self._say(
            f"{day.corrected:,} that had landed before are corrected (delays, tail numbers), and {day.weather:,} "
            "weather observations are new."
        )

    def step(self, step: Step) -> None:
        """What each stream of a run did."""
        for outcome in step.outcomes:
            self._say(f"  {outcome['stream']:<9}{_deed(outcome)}")
            for note in outcome["notes"]:
                self._say(f"  {'':<9}[dim]{escape(note)}[/]")
        spark = "and started Spark" if step.spark_started else "Spark was running already"
        if step.rows == 0:
            spark = "and no Spark was started"
        self._say(f"  {step.seconds:.1f} s, {spark}")

    def plan(self, report: PlanReport, *, seconds: float) -> None:
        """What a run would do."""
        for plan in report.streams:
            why = "; ".join(part.reason for part in plan.slices) or plan.outcome
            self._say(f"  {plan.stream:<9}{escape(why)}")
            if plan.write:
                self._say(f"  {'':<9}{plan.write['mode']}, as {escape(plan.write['reason'])}")
        self._say(f"  {seconds:.1f} s, without Spark; nothing has moved.")

    def proofs(self, proofs: tuple[Proof, ...]) -> None:
        """Both sides of every table."""
        self._say(
            "SQLite reads every row of the source, PyIceberg every row of the tables; neither of them loaded the rows:"
        )
        for proof in proofs:
            verdict = "[green]equal[/]" if proof.equal else "[red]DIFFERENT[/]"
            self._say(f"  {proof.table:<9}{proof.source.rows:>8,} rows   {verdict}   {proof.target}")

    def table(self, story: Story) -> None:
        """The figures, side by side."""
        if self.silent:
            return
        self._print("\n[bold]What each run moved[/]")
        self._print(f"  {'':<20}{'rows moved':>12}{'seconds':>10}   Spark")
        for step in story.steps:
            spark = "started by it" if step.spark_started else ("running already" if step.rows else "not needed")
            self._print(f"  {step.name:<20}{step.rows:>12,}{step.seconds:>10.1f}   {spark}")
        self._print("[green]Source and tables are equal.[/]" if story.equal else "[red]Source and tables DIFFER.[/]")

    def go_on(self, directory: Path) -> None:
        """What to type next."""
        binaries = Path(sys.executable).parent
        prefix = "" if shutil.which("tidegate") else f"{_shown(binaries)}/"
        where = f"--project {escape(str(directory))}"
        self._say("")
        self._say("[bold]Where to go from here[/]")
        for command, meaning in (
            (f"{prefix}tidegate status {where}", "how fresh each table is, and what is verified"),
            (f"{prefix}python -m tidegate_demo {escape(str(directory))}", "the next day arrives at the source"),
            (f"{prefix}tidegate plan flights weather {where}", "what would move"),
            (f"{prefix}tidegate run flights weather {where}", "move it"),
            (f"{prefix}tidegate history flights {where}", "every run so far"),
        ):
            self._say(f"  [cyan]{command}[/]  [dim]# {meaning}[/]")
        self._say(f"The project is {escape(str(directory / 'tidegate.yaml'))}: read it, change it.")

    def ended(self, problem: Problem) -> None:
        """Why the story ends early."""
        if not self.silent:
            self._print(f"[red]{escape(problem.message)}[/] ({problem.code})")
            self._print(escape(problem.hint))

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """A sign of life on a terminal; nothing where output is piped."""
        if self.brief or self.silent or not self.console.is_terminal:
            yield
            return
        with self.console.status(f"{what} …"):
            yield

    def _say(self, text: str) -> None:
        if not (self.brief or self.silent):
            self._print(text)

    def _print(self, text: str) -> None:
        self.console.print(text, soft_wrap=True, highlight=False)


def _deed(outcome: Mapping[str, Any]) -> str:
    if outcome["outcome"] == "unchanged":
        return "unchanged"
    parts = [
        f"{outcome[f'rows_{deed}']:,} {deed}" for deed in ("inserted", "updated", "deleted") if outcome[f"rows_{deed}"]
    ]
    proven = ", verified before it became visible" if outcome["verified"] else ""
    return f"{outcome['rows_read']:,} rows read: {', '.join(parts) or 'nothing to change'}{proven}"


def _shown(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
