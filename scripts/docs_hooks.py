# SPDX-License-Identifier: Apache-2.0
"""MkDocs hooks: generated pages, pages from outside docs/, and links between all of them.

The pages are also meant to be read in the checkout: links lead to files of the tree, and lists are indented as in
CommonMark. The hooks convert both into what MkDocs and Python-Markdown understand.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

from scripts import reference

ROOT = Path(__file__).resolve().parent.parent
ELSEWHERE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "CHANGELOG.md": "changelog.md",
    "catalog/README.md": "reference/catalog.md",
}
"""Pages outside docs/, with their paths in the site."""

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r" *(```+|~~~+)")
_ITEM = re.compile(r"( *)([-*+]|\d{1,3}[.)])( +)\S")

_generated: reference.Pages = {}


def navigation(nav: list[Any], generated: reference.Pages) -> list[Any]:
    """Return the navigation of mkdocs.yml, extended by the generated reference pages and the decisions."""
    decisions = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("0*.md"))
    groups: dict[str, list[Any]] = {"Roles": [], "Modules": []}
    single: list[Any] = []
    for name in generated:
        parts = name.split("/")
        (groups[parts[1].capitalize()] if len(parts) == 3 else single).append(name)
    found = []
    for entry in nav:
        ((heading, listed),) = entry.items()
        if heading == "Reference":
            listed = [*single, {"Roles": groups["Roles"]}, {"Modules": groups["Modules"]}, *listed]
        if heading == "Extend":
            why = ["decisions/README.md", *(f"decisions/{name}" for name in decisions)]
            listed = [*listed, {"Why it is built this way": why}]
        found.append({heading: listed})
    return found


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    _generated.clear()
    _generated.update(reference.pages())
    config.nav = navigation(config.nav or [], _generated)
    # The same anchors as those of the pages in the checkout.
    config.mdx_configs["toc"] = {**config.mdx_configs.get("toc", {}), "slugify": slugify(case="lower")}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    texts = dict(_generated)
    for path, name in ELSEWHERE.items():
        if name != "index.md":
            texts[name] = (ROOT / path).read_text(encoding="utf-8")
    for name, text in texts.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    return indented(relinked(markdown, page.file.src_uri))


# --- links ------------------------------------------------------------------------------------------------------------
def _in_tree(name: str) -> str:
    """Return the tree path of a site page's source, for resolving its links."""
    back = {there: here for here, there in ELSEWHERE.items() if there != "index.md"}
    role = re.fullmatch(r"reference/roles/(\w+)\.md", name)
    if role and role[1] != "index":
        return f"roles/{role[1]}/README.md"
    return back.get(name, f"docs/{name}")


def _in_site(path: str) -> str | None:
    """Return the site page for a file of the tree, or None."""
    role = re.fullmatch(r"roles/(\w+)(?:/README\.md)?", path)
    if role:
        return f"reference/roles/{role[1]}.md"
    if path in ELSEWHERE:
        return ELSEWHERE[path]
    return path.removeprefix("docs/") if path.startswith("docs/") and (ROOT / path).is_file() else None


def relinked(markdown: str, name: str) -> str:
    """Convert links for the site. A link to a file that is not a page is replaced by its text."""
    source = _in_tree(name)
    written_for_site = name in _generated and not source.startswith("roles/")

    def link(found: re.Match[str]) -> str:
        image, text, target = found.groups()
        path, mark, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:") or not path or written_for_site:
            return found[0]
        page = _in_site(posixpath.normpath(posixpath.join(posixpath.dirname(source), path)))
        if page is None:
            return text if (ROOT / posixpath.dirname(source) / path).exists() else found[0]
        return f"{image}[{text}]({os.path.relpath(page, posixpath.dirname(name) or '.')}{mark}{anchor})"

    return _LINK.sub(link, markdown)


# --- lists ------------------------------------------------------------------------------------------------------------
def indented(markdown: str) -> str:
    """Convert lists for Python-Markdown: four spaces per level, and an empty line before the first item."""
    lines: list[str] = []
    levels: list[int] = []  # columns at which the text of each open item begins
    fence = ""
    was_list = False
    for line in markdown.splitlines():
        column = len(line) - len(line.lstrip())
        item = None if fence else _ITEM.match(line)
        blank = not line.strip()
        continues = bool(lines) and lines[-1].strip() and not item  # may be a lazy continuation of a paragraph
        if not fence and not blank and not (continues and not _FENCE.match(line)):
            while levels and column < levels[-1]:
                levels.pop()
        inside = levels[-1] if levels else 0
        moved = " " * (4 * len(levels)) + line[min(inside, column) :] if not blank else ""
        if item:
            if not levels and lines and lines[-1].strip() and not was_list:
                lines.append("")
            levels.append(column + len(item[2]) + len(item[3]))
        was_list = bool(levels)
        mark = _FENCE.match(line)
        if mark:
            fence = "" if fence and mark[1].startswith(fence) else fence or mark[1]
        lines.append(moved)
    return "\n".join(lines) + "\n"
