# SPDX-License-Identifier: Apache-2.0
"""The `firstlight` command: what Ansible itself does not do well."""
