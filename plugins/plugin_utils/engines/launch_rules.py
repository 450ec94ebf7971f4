# SPDX-License-Identifier: Apache-2.0
"""Report the problems of a launch description as errors of the plan."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.checks import problems
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import LaunchDescription

ERRORS: dict[str, str] = {
    "launch.value": "A value of the wrong kind would end up in a command line unchanged.",
    "launch.hosts": "Ranks find each other by the addresses of their hosts, so every host needs its own.",
    "launch.ranks": (
        "Every engine's rendezvous is rank 0. A gap or duplicate in the ranks makes the others wait until the timeout."
    ),
    "launch.world": "A rank without a GPU of its own fails the start, after the weights were read.",
    "launch.replicas": "Several servers behind one address need a port each, and the profile that starts them.",
    "launch.runtime": "Not every profile can run from a virtual environment.",
    "launch.image": "A tag moves; only a digest ensures that every host runs the same bytes.",
    "launch.path": "A path that cannot be mounted fails at the start of the container, on the host.",
    "launch.setting": "Not every engine and version can do everything, and it reports that only after it was started.",
    "launch.version": "A mode that the pinned version does not have yet.",
    "launch.flags": "If a flag is given twice, the engine uses the last one without a warning.",
    "launch.secret": "Command lines and unit files are readable by every user of a host.",
    "launch.listen": (
        "An engine that takes no API key from a file would serve anyone who reaches its port. It stays on loopback, "
        "behind a proxy that requires the key."
    ),
}


def check_launch(description: LaunchDescription, errors: PlanErrors) -> bool:
    """Refuse every problem of the description; return whether there was none, so that commands can be rendered."""
    found = problems(description)
    for problem in found:
        errors.add(problem.id, problem.found, problem.rule, problem.remedy)
    return not found
