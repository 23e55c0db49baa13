"""Looks for advisories about what an installation consists of, and ends with 1 for one that nobody has judged.

Asks OSV (https://osv.dev). Where that cannot be reached, the advisories of `scripts/advisories.json` are what is known:
each with the component, the version that is not affected any more, and a judgement for Tidegate's use, which
docs/advisories.md shows. `--offline` asks nobody, `--page` writes that page.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.request
from collections.abc import Sequence
from typing import Any

from inventory import ROOT, Component, all_jars, packages

OSV = os.environ.get("OSV_URL", "https://api.osv.dev/v1")
KNOWN = ROOT / "scripts" / "advisories.json"
PAGE = ROOT / "docs" / "advisories.md"
AT_ONCE = 500
TIMEOUT = 30


def known() -> dict[str, Any]:
    """The pinned advisories, with the day of which they are."""
    found: dict[str, Any] = json.loads(KNOWN.read_text(encoding="utf-8"))
    return found


def affected(advisory: dict[str, Any], components: Sequence[Component]) -> list[Component]:
    """The components that an advisory is about."""
    return [
        each
        for each in components
        if each.name == advisory["component"]
        and (advisory["fixed"] is None or _number(each.version) < _number(advisory["fixed"]))
    ]


def online(components: Sequence[Component]) -> dict[str, list[Component]]:
    """What OSV knows: by each advisory's ids the components. Raises OSError where it cannot be reached."""
    asked = [each for each in components if each.purl]
    found: dict[str, list[Component]] = {}
    for start in range(0, len(asked), AT_ONCE):
        part = asked[start : start + AT_ONCE]
        answer = _ask("querybatch", {"queries": [{"package": {"purl": each.purl}} for each in part]})
        for component, result in zip(part, answer["results"], strict=True):
            for one in result.get("vulns", ()):
                found.setdefault(one["id"], []).append(component)
    return {" ".join([name, *_ask(f"vulns/{name}").get("aliases", ())]): where for name, where in found.items()}


def page(document: dict[str, Any], components: Sequence[Component]) -> str:
    """The text of docs/advisories.md."""
    rows = []
    for each in document["advisories"]:
        where = sorted(
            {f"{one.version}{f' in {one.inside}' if one.inside else ''}" for one in affected(each, components)}
        )
        cells = (
            f"`{each['component']}` {', '.join(where)}",
            ", ".join(each["ids"]),
            each["fixed"] or "-",
            each["judgement"],
        )
        rows.append(f"| {' | '.join(cells)} |")
    head = "| component | advisories | fixed in | for Tidegate |\n|---|---|---|---|\n"
    return document["page"] + "\n" + head + "\n".join(rows) + "\n"


def main(words: Sequence[str]) -> int:
    """0 where each advisory is judged."""
    document, components = known(), [*packages(), *all_jars()]
    present = {name: each for each in document["advisories"] if affected(each, components) for name in each["ids"]}
    past = [each["component"] for each in document["advisories"] if not affected(each, components)]
    if "--page" in words:
        PAGE.write_text(page(document, components), encoding="utf-8")
        return 0
    _say(f"{len(components)} components, {len(present)} known advisories of {document['as_of']}, each judged")
    for name in past:
        _say(f"no component is affected any more: remove {name} from {KNOWN.name}")
    if "--offline" in words:
        return bool(past)
    try:
        found = online(components)
    except (OSError, ValueError) as error:
        _say(f"OSV cannot be asked ({type(error).__name__}): nothing newer than {document['as_of']} is known")
        return bool(past)
    strange = {ids: where for ids, where in found.items() if not set(ids.split()) & present.keys()}
    for ids, where in sorted(strange.items()):
        _say(f"not judged: {ids}: {', '.join(sorted({f'{one.name} {one.version}' for one in where}))}")
    return bool(strange or past)


def _ask(path: str, body: Any = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{OSV}/{path}", data=data, headers={"Content-Type": "application/json"})  # noqa: S310 - stated above
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310 - as above
        return json.load(answer)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
