# SPDX-License-Identifier: Apache-2.0
"""Check what would be open to strangers; an operator has to accept each such exposure by name."""

from __future__ import annotations

from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import ENGINE_PORT, PROFILES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.values import is_loopback
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ClusterIntent

ERRORS = {
    "exposed.accepted": "An exposed service is accepted by its name; a misspelt one would accept nothing.",
    "exposed.hosts": "Without a firewall the ports of Ray, the ranks and the supervisors are open to anyone who "
    "reaches a host.",
    "exposed.engine": "An engine serves some paths without a key (vLLM: /invocations, /pause, "
    "/update_weights). It stays on loopback, behind the endpoint.",
    "exposed.port": "Any user of a host can listen on ports from 1024: while the engine is down, that user receives "
    "its key and its prompts.",
}

ACCEPTED = "firstlight_exposed_ok"
HOSTS, ENGINE, PORT = "hosts", "engine", "port"
_PRIVILEGED = 1024
"""Only root can bind ports below this; role host_tuning keeps the kernel's limit there."""


def check_exposed(decided: ClusterIntent, errors: PlanErrors) -> None:
    """Refuse hosts without a firewall, and an engine that others can reach or impersonate, unless it is accepted."""
    accepted = decided.intent.get(ACCEPTED)
    if accepted is None:
        accepted = []
    if not isinstance(accepted, list) or any(one not in (HOSTS, ENGINE, PORT) for one in accepted):
        errors.add(
            "exposed.accepted",
            f"{ACCEPTED} is {accepted!r}",
            f"it is a list: {HOSTS} accepts several hosts without a firewall, {ENGINE} an engine that others can "
            f"reach, {PORT} a port that others can take",
            f"write it as [{HOSTS}], or leave it out",
        )
        return
    closed = decided.firewall is not None and decided.firewall.enabled
    if len(decided.hosts) > 1 and not closed and HOSTS not in accepted:
        errors.add(
            "exposed.hosts",
            f"{len(decided.hosts)} hosts have no firewall",
            "hosts of a cluster accept only SSH, each other and what is opened",
            f"set firstlight_firewall: {{}}, or {ACCEPTED}: [{HOSTS}] where something else protects them",
        )
    listens = {str(host.variables.get("inference_server_listen", decided.serving.listen)) for host in decided.hosts}
    for listen in sorted(one for one in listens if not is_loopback(one) and ENGINE not in accepted):
        errors.add(
            "exposed.engine",
            f"the engine would listen on {listen}",
            "an engine serves some paths without a key: it listens on loopback, and firstlight_endpoint requires keys",
            f"set firstlight_serving.listen to 127.0.0.1, or {ACCEPTED}: [{ENGINE}] if strangers cannot reach {listen}",
        )
    ports = {_number(host.variables.get("inference_server_port", decided.serving.port)) for host in decided.hosts}
    more = decided.serving.replicas if PROFILES[decided.serving.profile].replicated else 0
    for port in sorted(one for one in ports if one + more >= _PRIVILEGED and PORT not in accepted):
        errors.add(
            "exposed.port",
            f"the engine would listen on port {port}" + (f", its replicas up to {port + more}" if more else ""),
            f"below {_PRIVILEGED} no other user of the host can listen in its place",
            f"set firstlight_serving.port to {ENGINE_PORT}, or {ACCEPTED}: [{PORT}] where no one else has an account",
        )


def _number(value: Any) -> int:
    """Convert a port as the role does; 0 for an invalid value, which the role refuses."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
