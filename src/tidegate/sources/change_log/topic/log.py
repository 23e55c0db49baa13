"""A change log in a Kafka topic: ranges of offsets per partition, fixed before any message is read.

Never continues on a different topic than the one that was read, nor from an offset other than the position's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from tidegate.core.display import counted
from tidegate.core.ids import Connection
from tidegate.core.log import KEY, ORIGIN, PLACE, VALUE, Lag, LogSpan, Message
from tidegate.core.ports.envelope import Envelope, MessageEnvelope
from tidegate.core.ports.source import Probe
from tidegate.core.schema import Schema
from tidegate.core.slices import Everything, LogRange, Slice
from tidegate.dialects.spark import Spark
from tidegate.errors import ConfigError, HistoryGone, InternalError, SourceError
from tidegate.sources.change_log.log import OpenLog, columns_known, columns_of, of_one_table
from tidegate.sources.change_log.topic import brokers as kafka
from tidegate.sources.change_log.topic import sample, transactions
from tidegate.sources.shared.frame_probe import reading
from tidegate.spark import jars
from tidegate.spark.sql import padded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JARS = (
    jars.KAFKA_SOURCE,
    jars.KAFKA_TOKENS,
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)


class Start(StrEnum):
    """Where a first load begins."""

    BEGINNING = "beginning"
    EARLIEST = "earliest"
    TABLE = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLogOptions:
    """What a log in a topic is, as the project says; see `ChangeLog`."""

    connection: Connection
    topic: str
    envelope: Envelope
    start: Start = Start.BEGINNING
    transactions: str | None = None

    def __post_init__(self) -> None:
        kafka.check(self.connection)
        if self.transactions is not None and self.envelope.transactions is None:
            raise ConfigError(f"envelope: {self.envelope.kind} does not report transactions; remove `transactions:`")
        if not self.envelope.messages:
            raise ConfigError(f"envelope: {self.envelope.kind} is for rows, but a topic holds messages")
        object.__setattr__(self, "envelope", self.envelope.with_registry(self.connection.registry))


class TopicLog(OpenLog):
    """A topic of events, as it is when it is first asked.

    Args:
        table: that it is the log of; None where nobody can ask it.
    """

    def __init__(self, options: TopicLogOptions, table: Probe | None) -> None:
        self._options = options
        self._table = table
        self._brokers = kafka.Brokers(options.connection)
        self._notes: list[str] = []
        self._before: Mapping[int, int] | None = None
        self._upto: Mapping[int, int] = {}
        self._named: str | None = None
        self._bulk = False
        self._sample: tuple[object, list[Message]] | None = None

    @property
    def label(self) -> str:
        return f"topic {self._options.topic}"

    def identity(self) -> str:
        """The topic; `after` finds out whether it is still the same one, with the reason."""
        return f"topic:{self._options.topic}"

    def clock(self) -> int | None:
        """Of the table beside the topic, whose events would stand below those of before once its server is restored."""
        return self._table.clock() if self._table else None

    def now(self) -> datetime:
        return datetime.now(UTC)

    def verify_unchanged(self) -> None:
        """Nothing: what was written at an offset stays what it is."""

    def notes(self) -> tuple[str, ...]:
        """How far the load stays behind."""
        return tuple(self._notes)

    def after(self, state: Mapping[str, Any] | None, *, most: int | None) -> LogSpan:
        """The events after the position, of every partition in equal shares.

        Raises:
            HistoryGone: the topic has lost some of them, is another one, or ends before the position.
            SourceError: there is no such topic.
        """
        found = self._ends
        before = self._before = self._position(state, found)
        self._named = (state or {}).get("table")
        read_state: dict[str, Any] = {"cluster": found.cluster, "topic": found.topic}
        if state is None and self._options.start is Start.TABLE:
            # What is written while the table is read comes again, from here on.
            self._upto, self._bulk = found.ends, True
            offsets = {str(part): end for part, end in found.ends.items()}
            return LogSpan(
                slices=(Everything(),), state={**read_state, "offsets": offsets}, bulk=True, reason="the table"
            )
        waiting = {part: end - before[part] for part, end in found.ends.items()}
        upto: Mapping[int, int] = _share(before, waiting, most)
        held = False
        if self._options.transactions is not None and any(waiting.values()):
            whole = self._whole(before, waiting, most, (state or {}).get("transactions"))
            upto, held, read_state["transactions"] = whole.upto, whole.held, whole.state
            self._notes += whole.notes
        slices = tuple(
            LogRange(part=f"{self._options.topic}:{part}", after=str(before[part] - 1), upto=str(upto[part] - 1))
            for part in sorted(upto)
            if upto[part] > before[part]
        )
        self._upto = upto if slices else found.ends
        if slices and not self._messages() and not columns_known(self.schema):
            return LogSpan(slices=(), state=state or {}, events=0, reason="no event of the table yet")
        if slices and (table := self._envelope.table_of(self._messages(), self._named)) is not None:
            read_state["table"] = table
        taken = sum(upto.values()) - sum(before.values())
        behind = 0 if held else sum(waiting.values()) - taken
        if behind:
            self._tell(behind, {part: offset for part, offset in upto.items() if offset < found.ends[part]})
        return LogSpan(
            slices=slices,
            state={**read_state, "offsets": {str(part): offset for part, offset in sorted(upto.items())}},
            events=taken,
            taken=taken,
            behind=behind,
            reason=f"offsets of {counted(len(slices), 'partition')} of topic {self._options.topic}",
        )

    def lag(self, state: Mapping[str, Any] | None) -> Lag:
        """The events after the position, and when the brokers got the oldest of them."""
        if state is None and self._options.start is Start.TABLE:
            return Lag()
        found = self._ends
        before = self._position(state, found)
        events = sum(end - before[part] for part, end in found.ends.items())
        return Lag(events=events, seconds=self._age({n: at for n, at in before.items() if at < found.ends[n]}))

    def schema(self) -> Schema:
        """The columns as the newest events before the load's end tell them, with the types of the table itself."""
        table = self._table.schema() if self._table else None
        if self._bulk and table is not None:
            return table
        return columns_of(*self._of_one_table(), self.label, table)

    def events(self, session: SparkSession, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        starts, ends = {}, {}
        for part in parts:
            if not isinstance(part, LogRange) or part.after is None:
                raise InternalError("a topic is read by ranges of offsets")
            number = part.part.rpartition(":")[2]
            starts[number], ends[number] = int(part.after) + 1, int(part.upto) + 1
        topic = self._options.topic
        options = {
            **kafka.for_spark(self._options.connection),
            "assign": json.dumps({topic: sorted(map(int, starts))}),
            "startingOffsets": json.dumps({topic: starts}),
            "endingOffsets": json.dumps({topic: ends}),
            "failOnDataLoss": "true",
            "kafka.isolation.level": "read_committed",
        }
        with reading(self.label):
            rows = session.read.format("kafka").options(**options).load()
            partition, offset = "CAST(partition AS string)", "CAST(offset AS string)"
            messages = rows.selectExpr(
                f"key AS {KEY}",
                f"value AS {VALUE}",
                f"concat({padded(partition, 10)}, ' ', {padded(offset, 20)}) AS {PLACE}",
                f"concat({Spark().string(self.label)}, ', partition ', {partition}, ', offset ', {offset}) AS {ORIGIN}",
            )
            envelope, known = self._of_one_table()
            if self._before is not None:
                envelope = envelope.of_columns(known, self._table.schema() if self._table else None)
            return envelope.primed_with(known).events(messages, schema)

    def _whole(
        self, before: Mapping[int, int], waiting: Mapping[int, int], most: int | None, known: Mapping[str, Any] | None
    ) -> transactions.WholeTransactions:
        """TopicOffsets that cut no transaction."""
        markers = self._of_one_table()[0].transactions
        if markers is None:
            raise InternalError("an envelope that reports no transactions was asked for them")
        return transactions.whole(
            self._brokers,
            transactions.TopicRead(
                topic=self._options.topic,
                transactions=self._options.transactions or "",
                markers=markers,
                found=self._ends,
                before=before,
                known=known,
                share=lambda limit: _share(before, waiting, limit),
                most=most,
            ),
        )

    def _of_one_table(self) -> tuple[MessageEnvelope, list[Message]]:
        return of_one_table(self._envelope, self._messages(), self._named)

    def _messages(self) -> list[Message]:
        """Messages that tell the columns, the newest last; the brokers are asked once for a range."""
        found = self._ends
        upto = self._upto or found.ends
        key = (upto, self._before, self._named)
        if self._sample is None or self._sample[0] != key:
            asked = sample.TopicSample(
                scan=partial(self._brokers.scan, self._options.topic),
                own=self._envelope.of_table(self._named).own,
                begins=found.begins,
                ends=found.ends,
                before=self._before,
                upto=upto,
            )
            self._sample = key, sample.messages(asked)
        return self._sample[1]

    @property
    def _envelope(self) -> MessageEnvelope:
        return cast("MessageEnvelope", self._options.envelope)

    @cached_property
    def _ends(self) -> kafka.TopicOffsets:
        found = self._brokers.topic(self._options.topic)
        if found is None:
            raise SourceError(
                f"there is no {self.label} at connection {self._options.connection.name!r}",
                hint="Correct `source: {topic: …}`, or start its connector, then run again.",
            )
        if found.compacted:
            raise ConfigError(
                f"{self.label} is compacted ({kafka.POLICY}={found.cleanup}): of the events of a key only the last "
                "stays, so changes and deletes vanish before they are read",
                hint=f"`kafka-configs.sh --bootstrap-server … --alter --entity-type topics --entity-name "
                f"{self._options.topic} --add-config {kafka.POLICY}=delete`, then `tidegate resync STREAM`; or read "
                "another topic.",
            )
        if found.cleanup is None:
            self._notes.append(
                f"the login may not read the configuration of {self.label} (DescribeConfigs), so it is not known "
                "whether the topic is compacted, which would lose deletes"
            )
        return found

    def _position(self, state: Mapping[str, Any] | None, found: kafka.TopicOffsets) -> dict[int, int]:
        """Where each partition is read from: what the position says, or its beginning."""
        if state is None:
            lost = sorted(part for part, begin in found.begins.items() if begin > 0)
            if lost and self._options.start is Start.BEGINNING:
                raise HistoryGone(
                    f"{self.label} has lost its beginning (partition {lost[0]} begins at offset "
                    f"{found.begins[lost[0]]}), so rows written before that would be missing"
                )
            return dict(found.begins)
        if state.get("cluster") != found.cluster:
            raise HistoryGone(f"{self.label} is on a different cluster than the one that was read")
        if state.get("topic") != found.topic:
            raise HistoryGone(f"{self.label} was deleted and recreated since it was read")
        before = {int(part): int(offset) for part, offset in state["offsets"].items()}
        missing = sorted(set(before) - set(found.ends))
        if missing:
            raise HistoryGone(f"{self.label} no longer has partition {missing[0]}")
        for part, end in sorted(found.ends.items()):
            next_, begin = before.setdefault(part, 0), found.begins[part]
            where = f"partition {part} of {self.label}"
            if next_ < begin:
                raise HistoryGone(f"{where} has lost {begin - next_} unread events (it begins at {begin})")
            if next_ > end:
                raise HistoryGone(
                    f"{where} ends at offset {end}, before the offset that was already read ({next_})", restored=True
                )
        return before

    def _tell(self, behind: int, offsets: Mapping[int, int]) -> None:
        seconds = self._age(offsets)
        if seconds is not None:
            self._notes.append(f"{counted(behind, 'event', 'are')} waiting, the oldest for {seconds} s")

    def _age(self, offsets: Mapping[int, int]) -> int | None:
        """Seconds since the oldest of these events was written; 0 for none of them, None where it does not say."""
        oldest = self._brokers.written_at(self._options.topic, offsets)
        if oldest is None:
            return None if offsets else 0
        return max(0, int((self.now() - oldest).total_seconds()))


def _share(before: Mapping[int, int], waiting: Mapping[int, int], most: int | None) -> dict[int, int]:
    """The ends of at most so many of the messages that wait."""
    return {part: before[part] + count for part, count in kafka.spread(waiting, most).items()}
