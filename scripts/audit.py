# SPDX-License-Identifier: Apache-2.0
"""Look up every package of requirements.lock in a vulnerability database.

Usage: audit.py [ARGUMENT OF pip-audit...]

Exits 1 if a package has a vulnerability, or could not be looked up although others could. If the database cannot be
reached, nothing is known: this is reported, and the exit status is 0.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ARGUMENTS = ("--requirement=requirements.lock", "--require-hashes", "--disable-pip", "--progress-spinner=off")
NO_CONNECTION = re.compile(
    r"your network may be blocking this service|"
    r"requests\.exceptions\.(?:ConnectionError|ProxyError|ConnectTimeout|ReadTimeout)"
)
"""Matches the end of pip-audit's output without a connection; it does not catch most of these exceptions."""
NOT_AUDITED = "NOT AUDITED: the database of vulnerabilities could not be reached"


def verdict(said: str, complaints: str) -> tuple[int, list[str]]:
    """Return the exit status and a summary, given pip-audit's standard output and standard error."""
    try:
        packages: list[dict[str, Any]] = json.loads(said)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (complaints.strip().splitlines() or [""])[-1]
        if NO_CONNECTION.search(last):
            return 0, [f"{NOT_AUDITED}. Run it again with network access."]
        return 1, [f"pip-audit printed no result, expected its JSON document: {last}"]
    unknown = [str(one["name"]) for one in packages if "skip_reason" in one]
    if len(unknown) == len(packages):
        # pip-audit takes a package mirror without a vulnerability database for one that knows of no vulnerability.
        return 0, [f"{NOT_AUDITED}: the service knows none of the {len(packages)} packages. Use another network."]
    found = [
        f"{one['name']} {one['version']}: {flaw['id']} {' '.join(flaw.get('aliases') or ())}, "
        f"fixed in {', '.join(flaw.get('fix_versions') or ()) or 'no version yet'}"
        for one in packages
        for flaw in one.get("vulns") or ()
    ]
    found += [f"{name} could not be looked up" for name in unknown]
    return (1, found) if found else (0, [f"No known vulnerability in {len(packages)} packages"])


def main(arguments: list[str]) -> int:
    """Run pip-audit, print the summary and return the exit status."""
    command = [str(Path(sys.executable).parent / "pip-audit"), *ARGUMENTS, "--format=json", *arguments]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    status, lines = verdict(done.stdout, done.stderr)
    print("\n".join(f"    {line}" for line in lines))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
