# SPDX-License-Identifier: Apache-2.0
"""SSH without Ansible, for hosts that Ansible cannot use yet: the host key is verified before a password is sent."""
