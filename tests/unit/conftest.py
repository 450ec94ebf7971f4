# SPDX-License-Identifier: Apache-2.0
"""Collections are imported through Ansible's own finder, as they are when Ansible runs the plugins.

Properties are tried with fresh examples at a desk and always with the same ones in CI, where a run must not depend on
luck. How long one takes says more about the machine than about the code, so no example has a deadline.
"""

from __future__ import annotations

import gc
import os

from ansible.plugins.loader import init_plugin_loader
from hypothesis import HealthCheck, settings

init_plugin_loader()

# What is imported stays, and is much: looking through it for garbage all the time is a tenth of a run.
gc.freeze()
gc.set_threshold(50_000)

# The same examples in every run, so that a change is judged by what it changed. FIRSTLIGHT_EXPLORE=1 looks for others.
settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("same", settings.get_profile("desk"), derandomize=True)
settings.load_profile("desk" if os.environ.get("FIRSTLIGHT_EXPLORE") else "same")
