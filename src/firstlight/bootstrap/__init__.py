# SPDX-License-Identifier: Apache-2.0
"""Bootstrap: turn a host that has only a password account into one that Ansible can manage."""
