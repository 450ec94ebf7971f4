# SPDX-License-Identifier: Apache-2.0
"""A vLLM platform plugin that lets several CPU-only nodes stand in for several GPU nodes.

vLLM refuses Ray on its CPU platform, because that platform names no Ray resource. This plugin uses
vLLM's own extension point (entry point group ``vllm.platform_plugins``) to say "GPU", which is what a
real node offers; Ray's resource is logical, so no GPU is needed. It belongs to the lab's image and never
to the product.
"""

from __future__ import annotations


def register() -> str:
    """Return the class vLLM is to use as its platform."""
    return "firstlight_lab_platform.platform.LabPlatform"
