# SPDX-License-Identifier: Apache-2.0
"""What MkDocs is told beside mkdocs.yml: generated pages, pages from outside of docs/, and links between all of them.

The pages are written for people who read them in the checkout, too: links lead to files of the tree, and lists are
indented as CommonMark has it. Here both are turned into what MkDocs and Python-Markdown understand.
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
"""Pages of the tree that are not in docs/: where the site has them."""

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r" *(```+|~~~+)")
_ITEM = re.compile(r"( *)([-*+]|\d{1,3}[.)])( +)\S")

_generated: reference.Pages = {}


def navigation(nav: list[Any], generated: reference.Pages) -> list[Any]:
    """The navigation of mkdocs.yml, with what is generated at the end of its last part and decisions in their place."""
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
    # Anchors as they are in the checkout's own pages.
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
    """Where the text of a page of the site is in the tree, so that its links can be followed."""
    back = {there: here for here, there in ELSEWHERE.items() if there != "index.md"}
    role = re.fullmatch(r"reference/roles/(\w+)\.md", name)
    if role and role[1] != "index":
        return f"roles/{role[1]}/README.md"
    return back.get(name, f"docs/{name}")


def _in_site(path: str) -> str | None:
    """The page of the site that a file of the tree is, if it is one."""
    role = re.fullmatch(r"roles/(\w+)(?:/README\.md)?", path)
    if role:
        return f"reference/roles/{role[1]}.md"
    if path in ELSEWHERE:
        return ELSEWHERE[path]
    return path.removeprefix("docs/") if path.startswith("docs/") and (ROOT / path).is_file() else None


def relinked(markdown: str, name: str) -> str:
    """The text with links for the site. A link to a file that is no page becomes its text: the site has none."""
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
    """The text with lists as Python-Markdown wants them: four spaces a level, an empty line before the first item."""
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
