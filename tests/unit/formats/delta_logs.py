"""Logs of Delta tables, written by hand: actions, commits and the folder that they lie in."""

import json
from pathlib import Path

from tidegate.core.ids import Target
from tidegate.core.position import Position
from tidegate.formats.delta import Delta, table

UID = "0123456789abcdef"
OTHER = "f" * 16
TARGET = Target(lake="lake", namespace=("shop",), table="orders")
FIELDS = {"id": "long", "name": "string"}


def position(sequence: int, uid: str = UID) -> Position:
    return Position(sequence=sequence, load_id=f"{uid[:2]}-{sequence}", kind="watermark", state={"at": sequence})


def metadata(fields=FIELDS, **more):
    columns = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    text = json.dumps({"type": "struct", "fields": columns})
    return {"metaData": {"id": "t-1", "schemaString": text, "partitionColumns": [], "configuration": {}, **more}}


PROTOCOL = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}}


def info(operation="WRITE", *, carries=None, uid=UID, at=0, **more):
    text = {} if carries is None else {"userMetadata": table.user_metadata(uid, carries)}
    return {"commitInfo": {"operation": operation, "timestamp": at, **text, **more}}


def add(path, rows=1, *, low=0, high=9, dv=None, **more):
    stats = {"numRecords": rows, "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}}
    if dv:
        more["deletionVector"] = {"storageType": "u", "pathOrInlineDv": dv[0], "offset": 1, "cardinality": dv[1]}
    return {"add": {"path": path, "partitionValues": {}, "stats": json.dumps(stats), **more}}


def remove(path, rows=1, **more):
    return {"remove": {"path": path, "dataChange": True, "stats": json.dumps({"numRecords": rows}), **more}}


def txn(version, uid=UID):
    return {"txn": {"appId": uid, "version": version}}


def load(sequence, *actions, uid=UID, operation="WRITE", at=0):
    return [info(operation, carries=position(sequence, uid), uid=uid, at=at), txn(sequence, uid), *actions]


MADE = [info("CREATE TABLE"), PROTOCOL, metadata()]


def log_of(lake: Delta) -> Path:
    return lake.folder / "warehouse" / "shop" / "orders" / "_delta_log"


def write(lake: Delta, *commits) -> None:
    write_log(log_of(lake), *commits)


def write_log(folder: Path, *commits) -> None:
    """Adds commits behind those that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for version, actions in enumerate(commits, len(list(folder.glob("*.json")))):
        lines = "".join(json.dumps(action) + "\n" for action in actions)
        (folder / f"{version:020}.json").write_text(lines, encoding="utf-8")
