"""Files as the reference reads them, for its tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.schema import BIGINT, TEXT, Column, Schema
from tidegate.core.slices import Everything
from tidegate.sources.shared.files.store import folder_of
from tidegate.sources.shared.reference import Answers, FileRows

TWO = Schema(columns=(Column(name="id", type=BIGINT), Column(name="v", type=TEXT)))


def answers(folder: Path, *paths: str, schema: Schema = TWO, form: str = "csv", **options: Any) -> Answers:
    names = {name: options.pop(name) for name in ("carrier", "partitions", "stated") if name in options}
    rows = FileRows(store=folder_of(str(folder)), form=form, options=options, schema=schema, **names)
    return Answers(rows=rows, paths=paths)


def of(*rows: tuple[str | None, ...]) -> Fingerprint:
    return Fingerprint.of_texts(row_text(row) for row in rows)


def written(folder: Path, content: bytes, name: str = "a.csv") -> str:
    (folder / name).write_bytes(content)
    return name


def one(tmp_path: Path, content: bytes, name: str = "a.csv", **options: str) -> Fingerprint:
    return answers(tmp_path, written(tmp_path, content, name), **options).fingerprint(Everything())
