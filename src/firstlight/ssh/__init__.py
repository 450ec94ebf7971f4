# SPDX-License-Identifier: Apache-2.0
"""SSH without Ansible, for hosts that Ansible cannot use yet: whom we talk to is settled before a password is sent."""
