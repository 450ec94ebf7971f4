# SPDX-License-Identifier: Apache-2.0
"""The Prometheus configuration of a cluster: one metrics page per node, with everything on it."""

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
    """A node to scrape."""

    host: str
    address: str
    port: int
    role: str

    @property
    def endpoint(self) -> str:
        """Address and port in Prometheus' notation."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def scrape_document(targets: Sequence[Target], cluster: str, rules: str) -> dict[str, Any]:
    """Return the configuration as data. Label `host` is the inventory name, which alerts and the dashboard use."""
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
    """Render a document as YAML below a one-line comment."""
    # Names from an inventory are instances of Ansible's own string class, which safe_dump rejects.
    plain = json.loads(json.dumps(document))
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110)
    return f"# firstlight: written by `firstlight monitoring`. {words}\n{text}"
