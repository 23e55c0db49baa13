"""Decides how a class is its own options: a frozen dataclass whose fields are the keys of the project file.

Called for every section of the project file and for every plugin. Must never know a particular class.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from itertools import takewhile
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, InstanceOf, TypeAdapter, ValidationError, WithJsonSchema

from tidegate import plugins
from tidegate.config.fractions import PATTERN as PERCENT
from tidegate.config.fractions import fraction
from tidegate.config.nodes import Mark, Node, Problems
from tidegate.config.sizes import PATTERN as SIZE
from tidegate.config.sizes import size
from tidegate.core.durations import PATTERN, duration
from tidegate.core.fraction import Fraction
from tidegate.core.ids import Connection
from tidegate.core.policies.maintenance import Bytes
from tidegate.core.spelling import suggest
from tidegate.errors import ConfigError

T = TypeVar("T")

KIND = "kind"


def build(group: str, node: Node, **given: Any) -> Any:
    """The plugin that a mapping with a `kind` describes.

    Args:
        given: fields that the program provides; they win over keys of the mapping.

    Raises:
        UnknownPlugin: nobody provides that kind.
        ConfigError: a key or a value that the plugin does not take; names file, line and key.
    """
    return read(plugin_of(group, node), without(node, KIND), **given)


def plugin_of(group: str, node: Node) -> type[Any]:
    """The class behind a mapping's `kind`. Raises UnknownPlugin and ConfigError with file, line and key."""
    kind = node.get(KIND)
    if kind is None:
        raise node.mark.error(f"needs `kind:`; {suggest('', plugins.names(group))}")
    with located(kind.mark):
        return plugins.load(group, kind.text())


@contextmanager
def located(mark: Mark) -> Iterator[None]:
    """Gives an error of the project file the place it belongs to; one that has a place already stays as it is."""
    try:
        yield
    except ConfigError as error:
        if "key" in error.context:
            raise
        place = {"file": mark.file, "line": mark.line, "key": ".".join(mark.path)}
        raise type(error)(f"{mark}: {error.message}", hint=error.hint, **{**error.context, **place}) from error


def read(cls: type[T], node: Node, **given: Any) -> T:
    """An instance whose fields are the node's entries.

    Raises:
        ConfigError: an unknown key (with the nearest known one), a missing one, or a value of a wrong type.
    """
    values = check(cls, node, given)
    try:
        with located(node.mark):
            return cls(**values, **given)
    except (ValueError, TypeError) as error:
        raise node.mark.error(str(error)) from error


def check(cls: type[Any], node: Node, given: Iterable[str] = ()) -> dict[str, Any]:
    """The validated values of a class's fields, without those that the program gives. Raises ConfigError."""
    wanted = {name: field for name, field in fields(cls).items() if name not in given}
    problems = Problems()
    with problems.kept():
        without(node, *given).refuse_unknown(wanted)
    values = {}
    for name, field in wanted.items():
        entry = node.get(name)
        with problems.kept():
            if entry is not None and field.plugin:
                values[name] = build(field.plugin, as_plugin(entry))
            elif entry is not None:
                values[name] = convert(field.hint, entry)
            elif field.required and not node.misspelt(name, wanted):
                raise node.mark.error(f"needs the key {name!r}")
    problems.refuse()
    return values


def convert(hint: Any, node: Node) -> Any:
    """The node's value as the type that a hint names. Raises ConfigError with file, line and key."""
    try:
        return _adapter(hint).validate_python(node.plain())
    except ValidationError as error:
        raise _explain(error, node) from error


def canonical(cls: type[Any], node: Node) -> Node:
    """The mapping with every option under its own name and every value in its own spelling.

    Raises:
        ConfigError: an option is given under two names.
    """
    entries = dict(node.items)
    for name, option in fields(cls).items():
        given = [key for key in (name, *option.aliases) if key in entries]
        if len(given) > 1:
            raise entries[given[1]].mark.error(
                f"has both {given[0]!r} and {given[1]!r}, which are one option", hint="Remove one of them."
            )
        if given:
            value = entries.pop(given[0])
            word = value.value if isinstance(value.value, str) else ""
            entries[name] = dataclasses.replace(value, value=option.spellings.get(word, value.value))
    return dataclasses.replace(node, value=entries)


def as_plugin(node: Node) -> Node:
    """A plugin that is named alone, as a mapping with its `kind`."""
    return Node(value={KIND: node}, mark=node.mark) if isinstance(node.value, str) else node


def without(node: Node, *keys: str) -> Node:
    """A mapping without some of its keys."""
    return dataclasses.replace(node, value={key: item for key, item in node.items.items() if key not in keys})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A field of a class as a key of the project file.

    Args:
        plugin: the group of which the key names a plugin; None for a plain value.
        aliases: other names of the key.
        spellings: other spellings of a value, and the value.
    """

    hint: Any
    required: bool
    default: Any = None
    plugin: str | None = None
    aliases: tuple[str, ...] = ()
    spellings: Mapping[str, str] = dataclasses.field(default_factory=dict)


def fields(cls: type[Any]) -> Mapping[str, Option]:
    """The keys that a class takes; fields whose metadata say `given` are the program's own."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {
        field.name: Option(
            hint=hints[field.name],
            required=_required(field),
            default=_default(field),
            plugin=field.metadata.get("plugin"),
            aliases=field.metadata.get("aliases", ()),
            spellings=field.metadata.get("spellings", {}),
        )
        for field in dataclasses.fields(cls)
        if field.init and not field.metadata.get("given")
    }


def summary(cls: type[Any]) -> str:
    """The first sentence of a class's docstring: what an editor shows for its kind."""
    return inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]


def descriptions(cls: type[Any]) -> Mapping[str, str]:
    """What an editor shows for each key of a class: the `Args` of its docstring, one sentence each.

    Example:
        >>> class Bounds:
        ...     '''Bounds.
        ...
        ...     Args:
        ...         low, high: the bounds,
        ...             both inclusive.
        ...     '''
        >>> descriptions(Bounds)
        {'low': 'The bounds, both inclusive.', 'high': 'The bounds, both inclusive.'}
    """
    _, _, listed = inspect.cleandoc(cls.__doc__ or "").partition("\nArgs:\n")
    found = {}
    for entry in re.finditer(r"^ {4}(\w[\w, ]*): (.*(?:\n {5,}.*)*)", listed, re.MULTILINE):
        text = " ".join(entry[2].split())
        found.update(dict.fromkeys(entry[1].split(", "), text[0].upper() + text[1:]))
    return found


def schema_of(cls: type[Any], *, hidden: Iterable[str] = ()) -> dict[str, Any]:
    """The JSON schema of a class's keys, each with its description."""
    known = {name: option for name, option in fields(cls).items() if name not in hidden}
    described = descriptions(cls)
    properties = {}
    for name, option in known.items():
        properties[name] = (
            plugin_schema(option.plugin) if option.plugin else _inlined(_adapter(option.hint).json_schema())
        )
        if isinstance(option.default, str | int | float) and not isinstance(option.default, Bytes):
            properties[name]["default"] = option.default
        if name in described:
            properties[name]["description"] = described[name]
        if option.spellings:
            properties[name] = {**properties[name], "enum": [*properties[name]["enum"], *option.spellings]}
        for alias in option.aliases:
            also = f"The same as `{name}`."
            properties[alias] = {key: value for key, value in properties[name].items() if key != "default"}
            properties[alias] |= {"description": also}
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": properties}
    required = [name for name, option in known.items() if option.required]
    return {**schema, "required": required} if required else schema


def plugin_schema(group: str) -> dict[str, Any]:
    """The JSON schema of a key that names a plugin: its kind alone, or with options."""
    kinds = plugins.names(group)
    mappings = []
    for kind in kinds:
        cls = plugins.load(group, kind)
        schema = schema_of(cls)
        schema["properties"] = {KIND: kind_schema(cls, kind), **schema["properties"]}
        mappings.append({**schema, "required": [KIND, *schema.get("required", [])]})
    return {"anyOf": [{"enum": list(kinds)}, *mappings]}


def kind_schema(cls: type[Any], kind: str) -> dict[str, Any]:
    """The JSON schema of the key that names a plugin."""
    return {"const": kind, "description": summary(cls)}


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its definitions in place: as a part of another schema, its references would lead nowhere."""
    defined = schema.pop("$defs", {})

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            name = str(value.get("$ref", "")).rpartition("/")[2]
            return walk(defined[name]) if name in defined else {key: walk(item) for key, item in value.items()}
        return [walk(item) for item in value] if isinstance(value, list) else value

    found: dict[str, Any] = walk(schema)
    return found


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> Any:
    return None if field.default is dataclasses.MISSING else field.default


@functools.cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(_written(hint))


def _written(hint: Any) -> Any:
    """The same type, as people write it: durations as texts, one value where a list may stand."""
    if hint in (timedelta, Bytes, Fraction):
        return _measure(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        named = Annotated[str, WithJsonSchema({"type": "string"})]
        section = Annotated[hint, BeforeValidator(functools.partial(_shares, hint)), WithJsonSchema(schema_of(hint))]
        return named if hint is Connection else section
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return functools.reduce(operator.or_, (_written(item) for item in arguments))
    if origin is tuple and arguments[1:] == (Ellipsis,):
        item = _written(arguments[0])
        one_or_more = TypeAdapter(item).json_schema()
        schema = WithJsonSchema({"anyOf": [one_or_more, {"type": "array", "items": one_or_more}]})
        return Annotated[types.GenericAlias(tuple, (item, ...)), BeforeValidator(_listed), schema]
    return hint


def _measure(hint: Any) -> Any:
    """A duration, a size or a share."""
    if hint is timedelta:
        schema = WithJsonSchema({"type": "string", "pattern": PATTERN, "examples": ["5m", "7d"]})
        return Annotated[timedelta, BeforeValidator(duration), schema]
    if hint is Bytes:
        schema = WithJsonSchema({"type": "string", "pattern": SIZE, "examples": ["32MB"]})
        return Annotated[InstanceOf[Bytes], BeforeValidator(size), schema]
    percent = {"type": "string", "pattern": PERCENT, "examples": ["5%"]}
    schema = WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, percent]})
    return Annotated[float, BeforeValidator(fraction), schema]


def _shares(cls: type[Any], values: Any) -> Any:
    """The entries of a section with its shares as numbers: pydantic reads a dataclass by its own hints."""
    if not isinstance(values, Mapping):
        return values
    found, known = dict(values), fields(cls)
    if (unknown := next((name for name in found if name not in known), None)) is not None:
        raise ValueError(f"{unknown!r} is not a known key; {suggest(str(unknown), known)}")
    for name in found.keys() & {name for name, option in fields(cls).items() if option.hint == Fraction}:
        try:
            found[name] = fraction(found[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return found


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


def _explain(error: ValidationError, node: Node) -> ConfigError:
    found = error.errors(include_url=False, include_context=True)
    texts = list(dict.fromkeys(_sentence(item, node) for item in found))
    texts = [text for text in texts if not any(other != text and other.endswith(text) for other in texts)]
    # Of a value that may be of several types, each of them has an error of its own below that value's place.
    common = takewhile(lambda steps: len(set(steps)) == 1, zip(*(item["loc"] for item in found), strict=False))
    wrong = node.at(steps[0] for steps in common)
    if wrong.value is None and any(item["type"] == "string_type" for item in found):
        texts = ["is null; put a text in quotes"]
    return wrong.mark.error(" or ".join(texts))


def _sentence(item: Mapping[str, Any], node: Node) -> str:
    if item["type"] in ("literal_error", "enum"):
        known = [part.strip("'") for part in item["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        near = suggest(str(item["input"]), known)
        listed = f"{item['input']!r} is not one of {', '.join(known)}"
        return f"{listed}; {near}" if near.startswith("did") else listed
    if item["type"] == "string_type" and isinstance(node.value, int | float):
        return "should be a text; put it in quotes"
    text = str(item["msg"]).removeprefix("Value error, ")
    if text.startswith("must be a duration") and isinstance(item["input"], str | int | float):
        return f"{item['input']!r} {text}"
    return text.replace("Input should", "should", 1)


def missing(mark: Mark, key: str, example: str) -> ConfigError:
    """The error of a key that has to be there."""
    return mark.error(f"needs the key {key!r}, for example `{key}: {example}`")
