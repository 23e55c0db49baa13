"""The command `connector`, for the connector of Debezium that fills a stream's topic.

Never prints a password, and changes a connector that exists only where that loses nothing, or by confirmation.
"""

from __future__ import annotations

import json
from typing import Annotated

from typer import Option

from tidegate.cli.command import Stream
from tidegate.cli.shell import Shell
from tidegate.errors import ConfigError


def connector(
    shell: Shell,
    stream: Stream,
    apply: Annotated[
        str | None, Option("--apply", metavar="URL", help="Configure Kafka Connect at this URL of its REST API.")
    ] = None,
    password: Annotated[
        str | None,
        Option(metavar="REFERENCE", help="Where Kafka Connect finds the database's password: ${file:PATH:KEY}."),
    ] = None,
    plain_http: Annotated[
        bool, Option("--plain-http", help="With --apply: send the URL's login over http://, where others may read it.")
    ] = False,
    yes: Annotated[
        bool, Option("--yes", help="Confirm changes by which events of an existing connector could be lost.")
    ] = False,
) -> int:
    """Prints the Kafka Connect configuration that fills the stream's topic without losing a digit.

    It holds the tables of all streams of the same connector, and a reference in place of the password.
    """
    from tidegate.engine import connector as connectors  # noqa: PLC0415 - other commands do not need it

    if yes and apply is None:
        raise ConfigError("--yes confirms what --apply changes", hint="Name Kafka Connect: --apply URL.")
    with shell.project() as project:
        project.streams(stream)
        found = connectors.connector_of(project.streams(), stream, password)
        if apply is None:
            shell.verbatim(json.dumps(found.to_dict(), ensure_ascii=False, indent=2))
            if shell.as_json:
                shell.document({**found.to_dict(), "streams": list(found.streams)})
            return 0
        changed = connectors.apply(found, apply, confirmed=yes, plain_http=plain_http)
    if shell.as_json:
        shell.document({"name": found.name, "changed": [each.to_dict() for each in changed]})
        return 0
    for each in changed:
        shell.result(f"{each.setting}: {each.before or '-'} -> {each.after or '-'}")
    shell.result(f"connector {found.name}: {len(changed)} settings changed" if changed else f"{found.name}: unchanged")
    return 0
