# SPDX-License-Identifier: Apache-2.0
"""Collections are imported through Ansible's own finder, as they are when Ansible runs the plugins.

Properties are tried with the same examples in every run, so that a change shows only what it changed. How long one
takes says more about the machine than about the code, so no example has a deadline. HYPOTHESIS_PROFILE chooses how
many there are: `quick`, the default; `all`; or `explore`, which looks for others than the usual ones.
"""

from __future__ import annotations

import gc
import os

import pytest
from ansible.plugins.loader import init_plugin_loader
from hypothesis import HealthCheck, find, settings
from hypothesis import strategies as st

from tests.unit.examples import PROFILE_ALL
from tests.unit.processor_time import ProcessorTimeLimit

init_plugin_loader()

from ansible_collections.firstlight.cluster.plugins.plugin_utils.kept_bytecode import (  # noqa: E402 - Ansible finds it
    keep_bytecode,
)

# Ansible's finder compiles a collection anew in every process, which is most of the time that collecting takes.
keep_bytecode()

# What is imported stays, and is much: looking through it for garbage all the time is a tenth of a run.
gc.freeze()
gc.set_threshold(50_000)

settings.register_profile(
    "explore",
    deadline=None,
    max_examples=PROFILE_ALL,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("all", settings.get_profile("explore"), derandomize=True)
settings.register_profile("quick", settings.get_profile("all"), max_examples=PROFILE_ALL // 4)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
settings.load_profile(PROFILE)


def pytest_configure(config: pytest.Config) -> None:
    # A test that is not marked slow needs less than 0.3 s on an idle machine, and a few times as much on a busy one.
    if PROFILE == "quick":
        config.pluginmanager.register(ProcessorTimeLimit(5.0))


@pytest.hookimpl(trylast=True)  # after hypothesis has begun, and before xdist starts its workers
def pytest_sessionstart() -> None:
    # The table of all characters takes seconds to make, once in a checkout: it is no test's own time.
    if "PYTEST_XDIST_WORKER" not in os.environ:
        find(st.text(), lambda _: True)


@pytest.fixture(autouse=True)
def _width_of_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests, in a terminal or in workers that claim to be one, reads the same lines."""
    monkeypatch.delenv("COLUMNS", raising=False)
