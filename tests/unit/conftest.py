# SPDX-License-Identifier: Apache-2.0
"""Collections are imported through Ansible's own finder, as they are when Ansible runs the plugins."""

from __future__ import annotations

from ansible.plugins.loader import init_plugin_loader

init_plugin_loader()
