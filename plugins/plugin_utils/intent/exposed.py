# SPDX-License-Identifier: Apache-2.0
"""What would be open to strangers, which an operator has to accept by name."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.module_utils.core.launch_values import is_loopback
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.choices import Choices
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import Refusals

REFUSALS = {
    "exposed.accepted": "What is open to strangers is accepted by its name; a misspelt one would accept nothing.",
    "exposed.hosts": "Without a firewall the ports of Ray, the ranks and the supervisors are open to whoever reaches "
    "a host.",
    "exposed.engine": "An engine serves some paths to anybody without a key (vLLM: /invocations, /pause, "
    "/update_weights). It stays on loopback, behind the endpoint.",
}

ACCEPTED = "firstlight_exposed_ok"
HOSTS, ENGINE = "hosts", "engine"


def check_exposed(choices: Choices, refusals: Refusals) -> None:
    """Refuse several hosts without a firewall, and an engine that others can reach, unless each is accepted."""
    accepted = choices.intent.get(ACCEPTED)
    if accepted is None:
        accepted = []
    if not isinstance(accepted, list) or any(one not in (HOSTS, ENGINE) for one in accepted):
        refusals.add(
            "exposed.accepted",
            f"{ACCEPTED} is {accepted!r}",
            f"it is a list: {HOSTS} accepts several hosts without a firewall, {ENGINE} an engine that others can reach",
            f"write it as [{HOSTS}], or leave it out",
        )
        return
    closed = choices.firewall is not None and choices.firewall.enabled
    if len(choices.hosts) > 1 and not closed and HOSTS not in accepted:
        refusals.add(
            "exposed.hosts",
            f"{len(choices.hosts)} hosts have no firewall",
            "hosts of a cluster are closed but for SSH, each other and what is opened",
            f"set firstlight_firewall: {{}}, or {ACCEPTED}: [{HOSTS}] where something else closes them",
        )
    listens = {str(host.variables.get("inference_server_listen", choices.serving.listen)) for host in choices.hosts}
    for listen in sorted(one for one in listens if not is_loopback(one) and ENGINE not in accepted):
        refusals.add(
            "exposed.engine",
            f"the engine would listen on {listen}",
            "an engine serves some paths without a key: it listens on loopback, and firstlight_endpoint asks for keys",
            f"set firstlight_serving.listen to 127.0.0.1, or {ACCEPTED}: [{ENGINE}] where no stranger reaches {listen}",
        )
