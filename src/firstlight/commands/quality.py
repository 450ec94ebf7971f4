# SPDX-License-Identifier: Apache-2.0
"""`firstlight quality`: check whether a cluster still gives the accepted answers."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from firstlight.errors import DONE, FAILED, OPEN
from firstlight.options import add_host_options, add_json_option
from firstlight.playbooks import playbook_words, run_playbook


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "quality",
        description="Sends fixed prompts to a cluster and compares its answers with the accepted ones: the same as "
        "`ansible-playbook playbooks/quality.yml`. Changes nothing. Exits 0 when the answers are the same or within "
        "the limits, 1 when they became worse, and 3 when there is nothing to compare with or the server could not be "
        "queried.",
    )
    parser.set_defaults(run=run)
    add_host_options(parser)
    add_json_option(parser)
    parser.add_argument(
        "--accept",
        action="store_true",
        help="keep the answers as the accepted ones, with which later ones are compared",
    )
    parser.add_argument(
        "--reference", default="", metavar="FILE", help="compare with the answers in this file (default: accepted ones)"
    )
    parser.add_argument(
        "--answers", default="", metavar="FILE", help="also write the answers to this file, as JSON, for --reference"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the playbook, then return the exit status of its assessment."""
    with tempfile.TemporaryDirectory(prefix="firstlight-") as scratch:
        file = Path(scratch) / "assessment.json"
        words = playbook_words("quality.yml", arguments, settings(arguments, file))
        status = run_playbook(words, stdout=sys.stderr if arguments.json else None)
        if status != DONE:
            return status
        assessment = json.loads(file.read_text(encoding="utf-8"))
    if arguments.json:
        sys.stdout.write(json.dumps(assessment, indent=2) + "\n")
    return exit_status(str(assessment["status"]))


def exit_status(status: str) -> int:
    """Return FAILED if the answers became worse, and OPEN if they could not be compared."""
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.quality.assessment import PASSED, WORSE

    return DONE if status in PASSED else FAILED if status == WORSE else OPEN


def settings(arguments: argparse.Namespace, file: Path) -> dict[str, Any]:
    """The extra variables of the playbook: only explicit options, so that inventory variables still apply."""
    asked = {
        "quality_accept": arguments.accept,
        "quality_reference": os.path.abspath(arguments.reference) if arguments.reference else "",
        "quality_answers_document": os.path.abspath(arguments.answers) if arguments.answers else "",
    }
    return {name: value for name, value in asked.items() if value} | {"quality_document": str(file)}
