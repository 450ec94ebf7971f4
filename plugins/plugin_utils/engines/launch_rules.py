# SPDX-License-Identifier: Apache-2.0
"""Report the problems of a launch description as errors of the plan."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.checks import problems
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import LaunchDescription

ERRORS: dict[str, str] = {
    "launch.value": "A value of the wrong kind would end up in a command line as it is.",
    "launch.hosts": "Ranks find each other by the addresses of their hosts, so every host needs its own.",
    "launch.ranks": (
        "Every engine's rendezvous is rank 0. A gap or a double in the ranks makes the others wait until the time-out."
    ),
    "launch.world": "A rank without a GPU of its own ends the start, after the weights were read.",
    "launch.replicas": "Several servers behind one address need a port each, and the profile that starts them.",
    "launch.runtime": "Not every profile can run out of a virtual environment.",
    "launch.image": "A tag moves; only a digest says that every host runs the same bytes.",
    "launch.path": "A path that cannot be mounted fails at the start of the container, on the host.",
    "launch.setting": "Not every engine and version can do everything, and it says so only after it was started.",
    "launch.version": "A mode that the pinned version does not have yet.",
    "launch.flags": "Of a flag that is written twice the engine uses the last one and says nothing.",
    "launch.secret": "Command lines and unit files are readable for every user of a host.",
    "launch.listen": (
        "An engine that takes no API key from a file would serve anybody who reaches its port. It stays on loopback, "
        "behind a proxy that asks for the key."
    ),
}


def check_launch(description: LaunchDescription, errors: PlanErrors) -> bool:
    """Refuse every problem of the description; return whether there was none, so that commands can be rendered."""
    found = problems(description)
    for problem in found:
        errors.add(problem.id, problem.found, problem.rule, problem.remedy)
    return not found
