"""The strategy `sequence`: reads rows above the last loaded number of an increasing column.

Reads only up to a safe bound: numbers are generated in order, but committed in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from tidegate.core.bounds import Clock, SequenceBound
from tidegate.core.changes import ChangeSet, SafeBound
from tidegate.core.display import counted
from tidegate.core.effects import Effect, Insert
from tidegate.core.flavours import Bound
from tidegate.core.ledger import Ledger
from tidegate.core.ports.source import Probe
from tidegate.core.ports.strategy import Strategy
from tidegate.core.position import Position
from tidegate.core.slices import Everything, Range
from tidegate.core.source_identity import check_continues, check_owner
from tidegate.core.spelling import suggest
from tidegate.errors import ColumnMissing, ConfigError, EdgeUnknown, HistoryGone, PlanError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence(Strategy):
    """Reads rows whose number is between the position and the safe bound, below which no row can still arrive.

    Detects new rows only, neither updates nor deletes.

    Args:
        column: an integer column that a sequence of the database fills.
        wait: how long to wait for open transactions that hold back the safe bound.
        clock: who assigns the numbers; numbers of an application have no safe bound and are refused.
    """

    kind: ClassVar[str] = "sequence"
    rereads: ClassVar[bool] = False
    emits: ClassVar[frozenset[type[Effect]]] = frozenset({Insert})
    bound: ClassVar[Bound] = Bound.NUMBER
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"column": {"column": "id"}}

    column: str
    wait: timedelta = timedelta(seconds=2)
    clock: Clock = Clock.DATABASE

    @property
    def cursor(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def bound_request(self) -> SequenceBound:
        """The greatest number below which no row can still arrive."""
        return SequenceBound(column=self.column, wait=self.wait)

    def problems(self) -> tuple[str, ...]:
        found = []
        if self.clock is Clock.APPLICATION:
            found.append(
                "numbers that an application generates (clock: application) may be committed in any order, so no "
                "sequence bound is safe; use watermark or full"
            )
        if self.wait < timedelta(0):
            found.append("wait cannot be negative")
        return tuple(found)

    def resume(self, value: str | None) -> Mapping[str, Any]:
        try:
            number = int(value or "")
        except ValueError as error:
            raise ConfigError(
                f"strategy sequence continues from a number of {self.column}, not from {value!r}",
                hint="Give the greatest number up to which the table is complete.",
            ) from error
        return self._state(str(number))

    def resume_at(self, state: Mapping[str, Any]) -> str | None:
        """The value up to which the rows were read."""
        value: str | None = state.get("value")
        return value

    def check_value(self, state: Mapping[str, Any], probe: Probe) -> None:
        """The number must be one that the source has given out."""
        value, edge = self.resume_at(state), probe.edge()
        held = probe.key_bounds(Everything(), self.column) if edge.held_by else None
        greatest = held.high if held is not None else edge.upto
        known = [int(each) for each in (greatest, edge.generated) if each is not None]
        if value is not None and known and int(value) > max(known):
            raise ConfigError(
                f"{self.column} = {value} lies beyond {max(known)}, the last number that the source has given out: "
                f"rows that get the numbers between them would be missed",
                hint="Give a number up to which the table holds every row of the source: `tidegate state set STREAM "
                "VALUE`, or `tidegate state adopt STREAM --at VALUE` for a table without a position.",
            )

    def check_position(self, since: Position, probe: Probe) -> None:
        check_owner(since, self.kind, self.cursor)
        check_continues(since, probe)

    def detect(
        self,
        probe: Probe,
        since: Position | None,
        kept: Ledger | None = None,  # noqa: ARG002 - a cursor is all there is to compare
    ) -> ChangeSet | None:
        """The rows after the position up to the safe bound; None when there are none."""
        edge = probe.edge()
        if since is not None:
            self.check_position(since, probe)
        value: str | None = since.state["value"] if since else None
        self._check_numbers(value, edge)
        self._check_nulls(probe)
        if since is not None and value is not None:
            self._check_more(probe, value, since.state.get("at"))
        if edge.upto is None or edge.upto == value:
            return None
        part = Range(cursor=self.cursor, after=value, upto=edge.upto)
        stats = probe.stats(part)
        if not stats.rows:
            return None
        last = stats.last or value
        return ChangeSet(
            slices=(Range(cursor=self.cursor, after=value, upto=last),),
            effect=Insert(),
            state={**self._state(last), **({} if edge.final or last is None else {"at": self._rows_at(probe, last)})},
            loaded_through=last,
            rows=stats.rows,
            bytes=stats.bytes,
            reason=f"{counted(stats.rows, 'row')} with {self.column} {f'above {value} ' if value else ''}up to {last}",
            edge=edge,
        )

    def _check_numbers(self, value: str | None, edge: SafeBound) -> None:
        """Raises where new rows may get numbers up to the position, which would never be read.

        The greatest number alone proves nothing, since the newest rows may have been deleted; what the database has
        generated does.

        Raises:
            EdgeUnknown: rows have greater numbers than the database has generated.
            HistoryGone: the numbers were set back.
        """
        greatest = edge.upto if edge.upto is None else int(edge.upto)
        if edge.generated is not None and greatest is not None and greatest > edge.generated:
            raise EdgeUnknown(
                f"the greatest {self.column} is {greatest}, and the last number that the source has generated is "
                f"{edge.generated}: rows that get the numbers between them would be missed",
                hint="Set the sequence of the column to its greatest number, then run again; or use another strategy "
                "where an application hands out the numbers.",
            )
        if value is None or edge.held_by or not edge.final or (greatest is not None and greatest >= int(value)):
            return
        if edge.generated is not None and edge.generated < int(value):
            raise HistoryGone(
                f"the table was loaded up to {self.column} = {value}, and the last number that the source has "
                f"generated is {edge.generated}: its numbers were set back, and new rows would be missed",
                restored=True,
            )
        if edge.grant is not None and greatest is not None:
            raise HistoryGone(
                f"the table was loaded up to {self.column} = {value}, and the greatest number in the source is "
                f"{greatest}: either its newest rows were deleted, or its numbers were set back and new rows would be "
                f"missed",
                hint=f"Let an administrator run `{edge.grant}`, by which Tidegate tells the two apart, then run again.",
            )

    def _state(self, value: str | None) -> dict[str, Any]:
        return {"cursor": list(self.cursor), "value": value}

    def _rows_at(self, probe: Probe, value: str) -> int:
        """How many rows carry a number: several where it counts batches of them."""
        return probe.stats(Range(cursor=self.cursor, after=str(int(value) - 1), upto=value)).rows

    def _check_more(self, probe: Probe, value: str, loaded: int | None) -> None:
        """Raises PlanError if rows with the position's own number arrived, in sources where that can happen."""
        if loaded is not None and (now := self._rows_at(probe, value)) > loaded:
            raise PlanError(
                f"{counted(now - loaded, 'row')} with {self.column} = {value} arrived after the table was "
                f"loaded up to that "
                f"number",
                hint="Run a full refresh with `tidegate run STREAM --full-refresh --yes`, and give each batch "
                "of rows a greater number, or use `strategy: {kind: checksum}` with `write: merge`.",
            )

    def _check_nulls(self, probe: Probe) -> None:
        column = probe.schema().find(self.column)
        if column is None:
            raise ColumnMissing(
                f"the source has no column {self.column!r}; {suggest(self.column, probe.schema().names)}",
                column=self.column,
            )
        if not column.nullable:
            return
        rows = probe.stats(Range(cursor=self.cursor, after=None, upto=None, nulls=True)).rows
        if rows:
            raise PlanError(
                f"{counted(rows, 'row', 'have')} NULL in {self.column}, so it is unknown whether they are new",
                hint="Give them a number at the source, or use another strategy.",
            )
