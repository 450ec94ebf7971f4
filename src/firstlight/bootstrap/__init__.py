# SPDX-License-Identifier: Apache-2.0
"""Bootstrap: a host with only a password account becomes one that Ansible can use."""
