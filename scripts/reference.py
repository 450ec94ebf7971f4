# SPDX-License-Identifier: Apache-2.0
"""Generate the reference part of the documentation from the code during the site build: site path -> Markdown.

Variables come from the planner's own lists of keys and from the roles' argument specs, modules and plugins from
ansible-doc, commands from their parsers, playbooks from their leading comments.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from firstlight.cli import COMMANDS, build_parser

ROOT = Path(__file__).resolve().parent.parent
COLLECTION = "ansible_collections.firstlight.cluster"
PLUGINS = {"inventory": "Inventory", "callback": "Callback", "filter": "Filters", "lookup": "Lookups", "test": "Tests"}
Pages = dict[str, str]


def pages() -> Pages:
    """Return all generated pages."""
    documented = ansible_doc()
    return {
        "reference/inventory.md": inventory_page(),
        **role_pages(),
        **module_pages(documented["module"]),
        "reference/plugins.md": plugin_page(documented),
        "reference/playbooks.md": playbook_page(),
        "reference/command.md": command_page(),
    }


# --- Markdown ---------------------------------------------------------------------------------------------------------
def cell(text: object) -> str:
    """Format text for a table cell: on one line, with pipes and HTML escaped."""
    one_line = " ".join(str(text).split()).replace("|", "\\|")
    parts = re.split(r"(`[^`]*`)", one_line)
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |"]
    return ["", *lines, *(f"| {' | '.join(cell(one) for one in row)} |" for row in rows), ""]


def fenced(text: str, language: str = "text") -> list[str]:
    return ["", f"```{language}", *text.strip("\n").splitlines(), "```", ""]


def prose(value: str | Sequence[str] | None) -> str:
    """Convert a description from Ansible's markup to Markdown."""
    text = value if isinstance(value, str) else "\n\n".join(value or ())
    text = re.sub(r"\bL\(([^,)]+),\s*([^)]+)\)", r"[\1](\2)", text)
    text = re.sub(r"\bB\(([^)]+)\)", r"**\1**", text)
    text = re.sub(r"\bI\(([^)]+)\)", r"*\1*", text)
    text = re.sub(r"\b(?:RV|C|O|V|E|M|P|U)\(((?:\\\)|[^)])+)\)", r"`\1`", text)
    return text.replace("\\)", ")")


def default_of(option: Mapping[str, Any]) -> str:
    """Return the default of an option as Markdown."""
    if option.get("required"):
        return "required"
    return "" if option.get("default") is None else f"`{json.dumps(option['default'])}`"


def type_of(option: Mapping[str, Any]) -> str:
    elements = f" of {option['elements']}" if option.get("elements") else ""
    return f"{option.get('type', 'str')}{elements}"


def option_rows(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, ...]]:
    """Yield rows for options and their suboptions: name, type, default, meaning."""
    for name, option in options.items():
        choices = option.get("choices")
        said = prose(option.get("description"))
        told = f"{said} One of {', '.join(f'`{one}`' for one in choices)}." if choices else said
        yield f"`{prefix}{name}`", type_of(option), default_of(option), told
        yield from option_rows(option.get("options") or option.get("suboptions") or {}, f"{prefix}{name}.")


# --- inventory --------------------------------------------------------------------------------------------------------
def keys_of_mappings() -> dict[str, tuple[str, ...]]:
    """Return the keys of every mapping variable, taken from calls of `read_mapping(intent, NAME, KEYS, ...)`."""
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted((ROOT / "plugins" / "plugin_utils").rglob("*.py")):
        calls = [
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "read_mapping"
        ]
        if calls:
            module = importlib.import_module(
                ".".join([COLLECTION, *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")
            )
            for call in calls:
                name, keys = (_value(one, module) for one in call.args[1:3])
                found[name] = tuple(keys)
    return found


def _value(node: ast.expr, module: object) -> Any:
    return node.value if isinstance(node, ast.Constant) else getattr(module, node.id)  # type: ignore[attr-defined]


def variables() -> tuple[str, ...]:
    """Return every inventory variable that the planner knows: those of the cluster, then those of a host."""
    keys = importlib.import_module(f"{COLLECTION}.plugins.plugin_utils.plan.keys")
    hosts = importlib.import_module(f"{COLLECTION}.plugins.plugin_utils.inventory.inventory_hosts")
    return (*keys.INTENT_KEYS, *hosts.HOST_KEYS)


_MEANS = ("meaning", "held against")
"""Headings of the table columns that give the meaning of a key."""


def meanings() -> dict[tuple[str, str], tuple[str, str]]:
    """Return (variable, key or "") -> (page, meaning) from the tables of the pages; the first page takes precedence.

    A table belongs to the last variable named before it.
    """
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for path in sorted((ROOT / "docs").glob("*.md")):
        variable, column = "", 0
        for line in path.read_text(encoding="utf-8").splitlines():
            row = [one.strip() for one in re.split(r"(?<!\\)\|", line)[1:-1]]
            if column and len(row) > column and re.fullmatch(r"`[a-z0-9_`, ]+`", row[0]):
                for name in re.findall(r"`(\w+)`", row[0]):
                    key = (name, "") if name.startswith("firstlight_") else (variable, name)
                    found.setdefault(key, (path.name, row[column]))
            elif not row or not row[0].startswith(("`", "---")):
                column = next((number for number, one in enumerate(row) if one in _MEANS), 0)
            if not (row and row[0].startswith("`")) and (named := re.findall(r"\bfirstlight_\w+", line)):
                variable = named[-1]
    return found


def inventory_page() -> str:
    known, told = keys_of_mappings(), meanings()
    lines = [
        "# Inventory variables",
        "",
        "Every variable that the planner knows. A `firstlight_` variable or key that is not here is an error. Cluster",
        "variables are set once, usually in `group_vars/all.yml`; [the plan](../plan.md) explains them. A variable",
        "that begins with the name of a role belongs to that [role](roles/index.md).",
    ]
    for name in variables():
        page, meaning = told.get((name, ""), ("", ""))
        said = _linked(re.sub(r",? ?see below$", "", meaning), page)
        lines += ["", f"## {name}", "", f"{said[:1].upper()}{said[1:]}."]
        rows = [(f"`{key}`", _linked(*reversed(told.get((name, key), ("", ""))))) for key in known.get(name, ())]
        lines += table(("key", "meaning"), rows) if rows else []
        lines += [f"See [{title(page)}](../{page})."] if page else []
    return "\n".join(lines) + "\n"


def _linked(meaning: str, page: str) -> str:
    """Adjust links in a meaning so that they work from the reference."""
    meaning = re.sub(r"\]\(#", f"](../{page}#", meaning)
    return re.sub(r"\]\((?!\.\./|https?:)", "](../", meaning)


def title(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


# --- roles ------------------------------------------------------------------------------------------------------------
def roles() -> list[str]:
    return sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir())


def role_pages() -> Pages:
    """Return each role's README, followed by every variable with its type, from the argument specs."""
    found: Pages = {}
    rows = []
    for role in roles():
        specs = yaml.safe_load((ROOT / "roles" / role / "meta/argument_specs.yml").read_text(encoding="utf-8"))
        entry_points = specs["argument_specs"]
        text = [(ROOT / "roles" / role / "README.md").read_text(encoding="utf-8").rstrip(), "", "## Variables by type"]
        for entry_point, spec in entry_points.items():
            text += ["", f"### {role}: {entry_point}", "", f"{spec['short_description']}.", ""]
            text += [prose(spec.get("description"))]
            text += table(("variable", "type", "default", "meaning"), option_rows(spec.get("options") or {}))
        found[f"reference/roles/{role}.md"] = "\n".join(text) + "\n"
        rows.append((f"[`{role}`]({role}.md)", entry_points["main"]["short_description"]))
    index = ["# Roles", "", "One role per subject. Each also works alone, from the variables on its page."]
    found["reference/roles/index.md"] = "\n".join([*index, *table(("role", "what it does"), rows)]) + "\n"
    return found


# --- modules and plugins ----------------------------------------------------------------------------------------------
def ansible_doc() -> dict[str, dict[str, Any]]:
    """Return the collection's documentation from ansible-doc: kind -> name -> documentation."""
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-doc"), "--metadata-dump", "--no-fail-on-errors", "firstlight.cluster"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    listed: dict[str, dict[str, Any]] = json.loads(done.stdout)["all"]
    return {kind: {name.rpartition(".")[2]: one for name, one in plugins.items()} for kind, plugins in listed.items()}


def module_pages(modules: Mapping[str, Any]) -> Pages:
    found: Pages = {}
    rows = []
    for name, entry in sorted(modules.items()):
        doc = entry["doc"]
        said = f"`firstlight.cluster.{name}`: {prose(doc['short_description'])}."
        lines = [f"# {name}", "", said, "", *_documentation(entry)]
        found[f"reference/modules/{name}.md"] = "\n".join(lines) + "\n"
        rows.append((f"[`{name}`]({name}.md)", prose(doc["short_description"])))
    index = ["# Modules", "", "Modules of `firstlight.cluster`. They need no library on a host but Python's own."]
    found["reference/modules/index.md"] = "\n".join([*index, *table(("module", "what it does"), rows)]) + "\n"
    return found


def _documentation(entry: Mapping[str, Any], level: str = "##") -> list[str]:
    doc = entry["doc"]
    lines = [prose(doc.get("description")), ""]
    if doc.get("options"):
        lines += [f"{level} Options", *table(("option", "type", "default", "meaning"), option_rows(doc["options"]))]
    if doc.get("attributes"):
        rows = [
            (f"`{name}`", one.get("support", ""), prose(one.get("details") or one.get("description")))
            for name, one in doc["attributes"].items()
        ]
        lines += [f"{level} Attributes", *table(("attribute", "support", "meaning"), rows)]
    if doc.get("notes"):
        lines += [f"{level} Notes", "", *(f"- {prose(one)}" for one in doc["notes"]), ""]
    if entry.get("examples"):
        lines += [f"{level} Examples", *fenced(entry["examples"], "yaml")]
    if isinstance(entry.get("return"), Mapping):
        lines += [f"{level} Returned", *table(("value", "type", "meaning"), _returned(entry["return"]))]
    return lines


def _returned(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, ...]]:
    for name, one in values.items():
        yield f"`{prefix}{name}`", type_of(one), prose(one.get("description"))
        yield from _returned(one.get("contains") or {}, f"{prefix}{name}.")


def plugin_page(documented: Mapping[str, Mapping[str, Any]]) -> str:
    lines = ["# Plugins", "", "What the playbooks and roles use beside modules."]
    for kind, heading in PLUGINS.items():
        for name, entry in sorted(documented.get(kind, {}).items()):
            short = prose(entry["doc"]["short_description"])
            lines += ["", f"## {heading}: {name}", "", f"{short}.", "", *_documentation(entry, "###")]
    return "\n".join(lines) + "\n"


# --- playbooks --------------------------------------------------------------------------------------------------------
def playbook_page() -> str:
    """Return the leading comments of the playbooks, which are written for their users."""
    lines = [
        "# Playbooks",
        "",
        "As `playbooks/NAME.yml` in a checkout, as `firstlight.cluster.NAME` where the collection is installed.",
    ]
    for path in sorted((ROOT / "playbooks").glob("*.yml")):
        said = re.match(r"(?:---\n)?((?:#.*\n)+)", path.read_text(encoding="utf-8"))
        comment = [line[1:] for line in said[1].splitlines() if "SPDX" not in line] if said else []
        if comment:
            lines += ["", f"## {path.name}", "", *_comment(comment)]
    return "\n".join(lines) + "\n"


def _comment(lines: Iterable[str]) -> Iterator[str]:
    """Convert a comment to Markdown: indented lines are commands."""
    for line in lines:
        if line.startswith("   "):
            yield from fenced(line.strip())
        else:
            yield re.sub(r"(?<!`)(-e '[^']+'|-e [\w=,.]+|-[a-z-]+)(?=[ ,.;:])", r"`\1`", cell(line.strip()))


# --- the command ------------------------------------------------------------------------------------------------------
def command_page() -> str:
    """Return the --help output of every subcommand."""
    lines = [
        "# Every command and option",
        "",
        "What `firstlight COMMAND --help` prints. [The command](../command.md) says what they have in common, and what",
        "its exit statuses mean.",
    ]
    # Fixed for this page only; at run time, the user's terminal decides.
    with mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}):
        helps = list(_helps(build_parser(*COMMANDS), "firstlight"))
    for path, text in helps:
        lines += ["", f"{'##' if path.count(' ') < 2 else '###'} {path}", *fenced(text)]
    return "\n".join(lines) + "\n"


def _helps(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, str]]:
    # Show a default below the current home directory as one below `~`.
    yield path, parser.format_help().replace(str(Path.home()), "~")
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, one in action.choices.items():
                yield from _helps(one, f"{path} {name}")


if __name__ == "__main__":
    for name, text in pages().items():
        print(f"{name}: {len(text.splitlines())} lines")
