# SPDX-License-Identifier: Apache-2.0
"""The `firstlight` command: what Ansible is no good at."""
