"""The sockets on which a process and its descendants listen, as Linux tells of them."""

from __future__ import annotations

import ipaddress
import struct
from pathlib import Path

LISTENS = "0A"


def tree(pid: int) -> set[int]:
    """The process and its descendants."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(text.rpartition(")")[2].split()[1])
    found, new = {pid}, {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return found


def listening(pid: int) -> set[tuple[str, int]]:
    """Address and port of every TCP socket on which the process or a descendant accepts connections."""
    owned = set()
    for each in tree(pid):
        for file in Path(f"/proc/{each}/fd").glob("*"):
            try:
                target = str(file.readlink())
            except OSError:
                continue
            if target.startswith("socket:["):
                owned.add(target.removeprefix("socket:[").removesuffix("]"))
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == LISTENS and inode in owned:
                address, _, port = local.partition(":")
                found.add((_address(address), int(port, 16)))
    return found


def _address(text: str) -> str:
    """As people write it; an address of IPv4 in one of IPv6 as that of IPv4."""
    words = struct.pack(f"={len(text) // 8}I", *(int(text[place : place + 8], 16) for place in range(0, len(text), 8)))
    found = ipaddress.ip_address(words)
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)
