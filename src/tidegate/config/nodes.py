"""Parses YAML into values that remember the file, line and key they came from, for error messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from tidegate.core.secret_names import MASK
from tidegate.core.spelling import nearest, suggest
from tidegate.errors import ConfigError

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Where a value stands: file and line (None for values from Python), and its key from the top."""

    file: str | None = None
    line: int | None = None
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file is not None else ""
        return place + (".".join(self.path) or "the project")

    def inside(self, key: str) -> Mark:
        """The mark of a part that has no line of its own."""
        return replace(self, path=(*self.path, key))

    def error(self, message: str, *, hint: str | None = None, **context: Any) -> ConfigError:
        """An error about the value that stands here."""
        key = ".".join(self.path)
        return ConfigError(f"{self}: {message}", hint=hint, file=self.file, line=self.line, key=key, **context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A value of the project file and where it stands; mappings and lists hold nodes."""

    value: dict[str, Node] | list[Node] | Scalar
    mark: Mark

    @property
    def items(self) -> dict[str, Node]:
        """The entries of a mapping. Raises ConfigError for anything else."""
        if not isinstance(self.value, dict):
            raise self.mark.error("must be a mapping of keys to values")
        return self.value

    def get(self, key: str) -> Node | None:
        """The entry of a mapping, or None."""
        return self.items.get(key)

    def plain(self) -> Any:
        """The value without marks: mappings, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def at(self, path: Iterable[str | int]) -> Node:
        """The node that a path of keys and indexes leads to; the last one that is there if it leads too far."""
        node = self
        for step in path:
            if isinstance(node.value, dict) and step in node.value:
                node = node.value[str(step)]
            elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
            else:
                break
        return node

    def text(self) -> str:
        """A text. Raises ConfigError for anything else."""
        if not isinstance(self.value, str):
            raise self.mark.error("must be a string; put it in quotes if it looks like a number")
        return self.value

    def updated(self, entries: Mapping[str, Node]) -> Node:
        return replace(self, value={**self.items, **entries})

    def misspelt(self, key: str, known: Iterable[str]) -> bool:
        """Whether an unknown key is nearest to this one, which then is not missing but misspelt."""
        known = tuple(known)
        return any(nearest(each, known) == key for each in self.items if each not in known)

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Refuses unknown keys. Raises ConfigError: every unknown key, each with the nearest known one."""
        known, problems = tuple(known), Problems()
        for key, node in self.items.items():
            if key not in known:
                problems.found.append(node.mark.error(f"unknown key; {suggest(key, known)}"))
        problems.refuse()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problems:
    """Collects what is wrong with a project, so that all of it is reported at once."""

    found: list[ConfigError] = field(default_factory=list)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keeps the problems of a block, which ends there; what follows goes on."""
        try:
            yield
        except ConfigError as error:
            self.found.extend(every(error))

    def refuse(self) -> None:
        """Raises the first problem, which carries the others; nothing where there is none."""
        if len(self.found) > 1:
            first = self.found[0]
            context = {**first.context, "also": tuple(self.found[1:])}
            raise type(first)(first.message, hint=first.hint, **context)
        if self.found:
            raise self.found[0]


def every(error: ConfigError) -> tuple[ConfigError, ...]:
    """The error and those that it carries, see `Problems.refuse`."""
    alone = type(error)(error.message, hint=error.hint, **{k: v for k, v in error.context.items() if k != "also"})
    return (alone.with_traceback(error.__traceback__), *error.context.get("also", ()))


def parse(text: str, file: str) -> Node:
    """The values of a project file.

    YAML 1.2's core words only: `no`, `on` and `2013-12-01` are texts, as they look.

    Raises:
        ConfigError: not YAML, a key given twice, an alias that holds itself, aliases that repeat very many values, or a
            tag of a programming language.
    """
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        mark = Mark(file=file, line=place.line + 1 if place else None)
        what = ", ".join(filter(None, (error.context, error.problem)))
        # Of a password that begins with * or ! and is not quoted, YAML says the name that it would be.
        shown = re.sub(r"""(alias|anchor|handle) (['"]).*\2""", rf"\1 {MASK}", what)
        hint = "" if shown == what else "Quote a value that begins with *, & or !."
        # Without its cause, which shows the line as it stands in the file.
        raise mark.error(f"is not valid YAML: {shown}", hint=hint or None) from None
    except yaml.YAMLError as error:
        raise Mark(file=file, line=1).error(
            "is not valid YAML: it contains characters that YAML does not allow"
        ) from error
    except RecursionError as error:
        raise Mark(file=file, line=1).error("is nested too deeply") from error
    if root is None:
        raise Mark(file=file, line=1).error("is empty; it needs `streams:`")
    return _Reader(file=file).read(root, ())


def from_values(values: Any, path: tuple[str, ...] = ()) -> Node:
    """The same for values that Python gives."""
    mark = Mark(path=path)
    if isinstance(values, Mapping):
        return Node(value={str(key): from_values(item, (*path, str(key))) for key, item in values.items()}, mark=mark)
    if isinstance(values, (list, tuple)):
        listed = [from_values(item, (*path, str(index))) for index, item in enumerate(values)]
        return Node(value=listed, mark=mark)
    return Node(value=values, mark=mark)


class _Loader(yaml.SafeLoader):
    """YAML 1.2's core schema, so that no text turns into a date, a boolean or a number in base sixty."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML wants a class attribute
        first: [
            (tag, expression)
            for tag, expression in resolvers
            if tag in ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


MOST_REPEATED = 100_000
"""Values that aliases of one file may stand for, beside those that are written in it."""

_WORDS: dict[str, Scalar] = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_TAG = "tag:yaml.org,2002:"


@dataclass(slots=True, kw_only=True)
class _Reader:
    file: str
    seen: set[int] = field(default_factory=set)
    repeated: int = 0

    def read(self, node: yaml.Node, path: tuple[str, ...], above: tuple[yaml.Node, ...] = ()) -> Node:
        mark = Mark(file=self.file, line=node.start_mark.line + 1, path=path)
        if any(node is other for other in above):
            raise mark.error("is an alias that contains itself")
        # A few aliases of aliases stand for more values than there is memory.
        self.repeated += id(node) in self.seen
        self.seen.add(id(node))
        if self.repeated > MOST_REPEATED:
            raise mark.error(f"repeats more than {MOST_REPEATED:,} values by aliases")
        if isinstance(node, yaml.MappingNode):
            return Node(value=self._mapping(node, path, (*above, node)), mark=mark)
        if isinstance(node, yaml.SequenceNode):
            listed = [self.read(item, (*path, str(at)), (*above, node)) for at, item in enumerate(node.value)]
            return Node(value=listed, mark=mark)
        if not isinstance(node, yaml.ScalarNode) or node.tag not in (_TAG + "str", _TAG + "null"):
            raise mark.error(
                "has a YAML tag, which is not allowed in a project file", hint="Quote a value that begins with !."
            )
        return Node(value=_scalar(node), mark=mark)

    def _mapping(self, node: yaml.MappingNode, path: tuple[str, ...], above: tuple[yaml.Node, ...]) -> dict[str, Node]:
        merged: dict[str, Node] = {}
        own: dict[str, Node] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise Mark(file=self.file, line=line, path=path).error("has a key that is not a string")
            if key.tag == _TAG + "merge":
                parts = value.value if isinstance(value, yaml.SequenceNode) else [value]
                for part in parts:
                    merged = {**self.read(part, path, above).items, **merged}
                continue
            inner = (*path, str(key.value))
            if key.value in own:
                first = own[key.value].mark.line
                raise Mark(file=self.file, line=line, path=inner).error(f"is given twice, first in line {first}")
            read = self.read(value, inner, above)
            # The line of the key: a value may begin lines below it.
            own[str(key.value)] = replace(read, mark=replace(read.mark, line=line))
        return {**merged, **own}


def _scalar(node: yaml.ScalarNode) -> Scalar:
    text = str(node.value)
    if node.tag == _TAG + "null":
        return None
    if node.style is not None:
        return text
    if text in _WORDS:
        return _WORDS[text]
    readers: tuple[Callable[[str], Scalar], ...] = (int, float)
    for reader in readers:
        # Python reads 1_000, inf and surrounding spaces as numbers; a project file does not.
        if text[-1:].isdigit() and "_" not in text:
            try:
                return reader(text)
            except ValueError:
                continue
    return text
