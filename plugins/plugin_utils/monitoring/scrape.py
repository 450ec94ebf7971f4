# SPDX-License-Identifier: Apache-2.0
"""The configuration of Prometheus for a cluster: one page a node, with everything on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

JOB = "firstlight"
INTERVAL_SECONDS = 15
TIMEOUT_SECONDS = 10


@dataclass(frozen=True)
class Target:
    """A node that can be read."""

    host: str
    address: str
    port: int
    role: str

    @property
    def endpoint(self) -> str:
        """As Prometheus writes it."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def scrape_document(targets: Sequence[Target], cluster: str, rules: str) -> dict[str, Any]:
    """The configuration as data. `host` is the name in the inventory; alerts and the dashboard go by it."""
    return {
        "global": {
            "scrape_interval": f"{INTERVAL_SECONDS}s",
            "scrape_timeout": f"{TIMEOUT_SECONDS}s",
            "evaluation_interval": f"{INTERVAL_SECONDS}s",
        },
        "rule_files": [rules],
        "scrape_configs": [
            {
                "job_name": JOB,
                "static_configs": [
                    {"targets": [one.endpoint], "labels": {"cluster": cluster, "host": one.host, "role": one.role}}
                    for one in targets
                ],
            }
        ],
    }


def render(document: object, words: str) -> str:
    """A document as YAML under a heading of one comment."""
    # Names out of an inventory are Ansible's own kind of text, which YAML does not write.
    plain = json.loads(json.dumps(document))
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110)
    return f"# firstlight: written by `firstlight monitoring`. {words}\n{text}"
