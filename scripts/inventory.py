"""Lists what an installation consists of: packages of the lock file, jars of Spark, pinned jars, and what they enclose.

A jar that encloses others (shaded) names them in `META-INF/maven`. For the SBOM of a release and for the audit.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tidegate.spark import jars

ROOT = Path(__file__).parents[1]
# Of jars that do not say it themselves.
GROUPS = {
    "derby": "org.apache.derby",
    "ivy": "org.apache.ivy",
    "libthrift": "org.apache.thrift",
    "lz4-java": "org.lz4",
    "snappy-java": "org.xerial.snappy",
}


@dataclass(frozen=True, order=True)
class Component:
    """A package or a jar; of Maven with the group, where it is known.

    Args:
        inside: the file that encloses it; empty for one of its own.
        sha256: of the file.
    """

    ecosystem: str
    name: str
    version: str
    inside: str = ""
    sha256: str = ""

    @property
    def purl(self) -> str | None:
        """The URL of the package; None of a jar whose group is not known."""
        if self.ecosystem == "PyPI":
            return f"pkg:pypi/{self.name}@{self.version}"
        group, found, artifact = self.name.partition(":")
        return f"pkg:maven/{group}/{artifact}@{self.version}" if found else None


def packages() -> list[Component]:
    """Those of the lock file."""
    locked = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    return sorted(
        Component("PyPI", each["name"], each["version"]) for each in locked if "registry" in each.get("source", {})
    )


def all_jars() -> list[Component]:
    """Those of PySpark, the pinned ones, and what both enclose."""
    spec = find_spec("pyspark")
    folder = Path((spec.submodule_search_locations or [""])[0] if spec else "") / "jars"
    found = [one for path in sorted(folder.glob("*.jar")) for one in of_jar(path)]
    for text, path in zip(jars.SHA256, jars.resolve(tuple(jars.SHA256)), strict=True):
        found += of_jar(path, jars.Coordinate.parse(text))
    return found


def of_jar(path: Path, known: jars.Coordinate | None = None) -> Iterator[Component]:
    """A jar, and what it encloses."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"META-INF/maven/.+/pom\.properties", name)]
        poms = [
            dict(re.findall(r"^(\w+)\s*=\s*(.+?)\s*$", archive.read(name).decode(), re.MULTILINE)) for name in names
        ]
    poms = [pom for pom in poms if {"groupId", "artifactId", "version"} <= pom.keys()]
    parsed = re.fullmatch(r"(.+?)-(\d[\w.]*(?:-[\w.]+)*)", path.stem)
    artifact, version = (parsed[1], parsed[2]) if parsed else (path.stem, "")
    own = next((pom for pom in poms if path.stem.startswith(f"{pom['artifactId']}-{pom['version']}")), None)
    if known is not None:
        group, artifact, version = known.organisation, known.module, known.revision
    elif own is not None:
        group, artifact, version = own["groupId"], own["artifactId"], own["version"]
    else:
        group = GROUPS.get(artifact, "")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    yield Component("Maven", f"{group}:{artifact}" if group else artifact, version, sha256=digest)
    for pom in poms:
        if (pom["artifactId"], pom["version"]) != (artifact, version):
            yield Component("Maven", f"{pom['groupId']}:{pom['artifactId']}", pom["version"], inside=path.name)


def as_cyclonedx(component: Component) -> dict[str, Any]:
    """The component as CycloneDX writes it."""
    group, found, artifact = component.name.rpartition(":")
    said: dict[str, Any] = {"type": "library", **({"group": group} if found else {}), "name": artifact}
    said |= {"version": component.version, **({"purl": component.purl} if component.purl else {})}
    if component.sha256:
        said["hashes"] = [{"alg": "SHA-256", "content": component.sha256}]
    if component.inside:
        said["properties"] = [{"name": "tidegate:inside", "value": component.inside}]
    said["bom-ref"] = f"{component.inside or 'jar'}:{component.name}:{component.version}"
    return said


def main(sbom: Path) -> None:
    """Adds the jars to the SBOM of the packages."""
    document = json.loads(sbom.read_text(encoding="utf-8"))
    found = {each["bom-ref"]: each for each in map(as_cyclonedx, all_jars())}
    document["components"] = [*document.get("components", []), *found.values()]
    sbom.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
