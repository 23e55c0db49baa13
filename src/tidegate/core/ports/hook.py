"""What a hook implements: something outside that is refreshed after a load of a stream was published."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLoad:
    """The load that readers of the table see now; no value of a row, no secret.

    Args:
        version: the one that the load made of the table; None where its format does not say.
        published_at: since when readers see the load. A rollback to it is later than its first publication.
        rows: of the run that loaded it, by what happened to them; None where an earlier run did.
        verified: None where no verification was asked for, or the registry does not know.
    """

    project: str
    stream: str
    target: str
    load_id: str
    version: str | None
    published_at: datetime
    rows: Mapping[str, int] | None
    verified: bool | None

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return {**asdict(self), "published_at": self.published_at.isoformat()}


class Hook(Protocol):
    """One kind of hook; its fields are its options.

    `main` is the option that stands behind the kind in the short form, `{kind: value}`.
    """

    kind: ClassVar[str]
    main: ClassVar[str]

    @property
    @abstractmethod
    def label(self) -> str:
        """What it does, for people, in a few words; without what could be a secret."""

    @abstractmethod
    def refuse(self) -> None:
        """Contacts nobody. Raises ConfigError, EnvironmentMissing: it cannot run here."""

    @abstractmethod
    def run(self, load: PublishedLoad, *, seconds: float, ended: Callable[[], bool]) -> None:
        """Runs it once; may be repeated for one load.

        Args:
            seconds: how long it may take.
            ended: asked again and again where that is possible; whether nobody waits for it any more.

        Raises:
            TidegateError: it did not succeed; no secret and nothing that the other side said of values.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedHook:
    """A hook as a stream states it.

    Args:
        hook_id: of its content: a changed hook is another one.
        project: for the receiver.
        timeout: of one attempt.
        tries: in one run; the next run tries again.
    """

    hook: Hook
    hook_id: str
    project: str
    timeout: timedelta
    tries: int


def is_due(published: str, verified: bool | None, succeeded: str | None) -> bool:
    """Whether a hook has to run: readers see a load for which it did not succeed yet, and that did not fail its proof.

    Args:
        published: the load that readers see.
        verified: False where rows are visible and it is not known that they are right.
        succeeded: the load for which the hook last succeeded; None if it never did, or if that is unknown.

    Example:
        >>> is_due("b", True, "a"), is_due("b", None, None), is_due("b", True, "b"), is_due("b", False, "a")
        (True, True, False, False)
    """
    return verified is not False and succeeded != published
