# SPDX-License-Identifier: Apache-2.0
"""First touch: a host with only a password account becomes one that Ansible can use."""
