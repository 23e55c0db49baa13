"""Hooks of MkDocs that make one set of documents right on GitHub and on the site.

The documents link to each other and to files of the repository as GitHub needs it. Here these files become pages of the
site, and the links lead there: documents of the repository's root, and sources that a document names. Fences that carry
a word for the tests (`python run`) lose it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from posixpath import relpath
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = {
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "license.md": "LICENSE",
}
"""Pages of the site that are documents of the repository's root."""
DECISIONS = "adr"
SOURCES = "source"
"""The folder of the site with the sources that documents link to."""
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n"
LINK = re.compile(r"(?<=\]\()(?P<path>[^)#\s:]+)(?P<rest>#[^)\s]*)?(?=\))")
FENCE = re.compile(r"^```(\w+) [\w ]+$", re.MULTILINE)
LANGUAGES = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".sh": "sh"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Every decision is in the navigation, without a line for each."""

    def filled(item: Any) -> Any:
        if isinstance(item, list):
            return [filled(each) for each in item]
        if isinstance(item, dict):
            return {key: _decisions() if value == f"{DECISIONS}/" else filled(value) for key, value in item.items()}
        return item

    config.nav = filled(config.nav)
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """The pages that are not below `docs/`."""
    for uri, name in PAGES.items():
        files.append(File.generated(config, uri, content=_document(name)))
    for path in sorted(_linked_sources()):
        page = File.generated(config, _source_uri(path), content=_source_page(path))
        files.append(page)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs
    """The document as the site needs it."""
    uri = page.file.src_uri
    if uri.startswith(f"{SOURCES}/"):
        return markdown
    folder = ROOT if uri in PAGES else (DOCS / uri).parent
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [_tables(_links(part, uri, folder)) for part in parts[::2]]
    return FENCE.sub(r"```\1", "".join(parts))


def _links(text: str, uri: str, folder: Path) -> str:
    def led(match: re.Match[str]) -> str:
        found = _site_uri((folder / match["path"]).resolve())
        return relpath(found, Path(uri).parent.as_posix()) + (match["rest"] or "") if found else match[0]

    return LINK.sub(led, text)


def _site_uri(path: Path) -> str | None:
    """The page of the site that stands for a file or folder of the repository; None where there is none."""
    if not path.is_relative_to(ROOT) or not path.exists():
        return None
    own = {name: uri for uri, name in PAGES.items()}.get(path.relative_to(ROOT).as_posix())
    if own:
        return own
    if path.is_relative_to(DOCS):
        inner = path.relative_to(DOCS).as_posix()
        return f"{inner}/README.md" if path.is_dir() else inner
    return _source_uri(path)


def _tables(text: str) -> str:
    """Code in cells without the backslash that GitHub needs before `|`."""

    def row(match: re.Match[str]) -> str:
        return re.sub(r"`[^`]+`", lambda code: code[0].replace("\\|", "|"), match[0])

    return re.sub(r"^\|.*$", row, text, flags=re.MULTILINE)


def _decisions() -> list[str]:
    pages = sorted((DOCS / DECISIONS).glob("[0-9]*.md"))
    return [f"{DECISIONS}/{path.name}" for path in (DOCS / DECISIONS / "README.md", *pages)]


def _document(name: str) -> str:
    text = (ROOT / name).read_text(encoding="utf-8")
    return text if name.endswith(".md") else f"# License\n\n```text\n{text}```\n"


def _linked_sources() -> set[Path]:
    """Files and folders outside `docs/` that documents link to, and that are no page already."""
    found = set()
    for page in [*DOCS.rglob("*.md"), *(ROOT / name for name in PAGES.values())]:
        for match in LINK.finditer(page.read_text(encoding="utf-8")):
            path = (page.parent / match["path"]).resolve()
            uri = _site_uri(path)
            if uri and uri.startswith(f"{SOURCES}/"):
                found.add(path)
    return found


def _source_uri(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix()
    return f"{SOURCES}/{name}/index.md" if path.is_dir() else f"{SOURCES}/{name}.md"


def _source_page(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        return f"{UNSEARCHED}# {name}/\n\n" + "".join(_listing(path))
    text = path.read_text(encoding="utf-8").rstrip()
    return f"{UNSEARCHED}# {name}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{text}\n````\n"


def _listing(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.py")):
        told = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]
        yield f"- `{path.relative_to(folder).as_posix()}`: {' '.join(told.split())}\n"
