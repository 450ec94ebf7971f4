# SPDX-License-Identifier: Apache-2.0
"""The firewall of a host: its rules, what is in force, and a change that undoes itself."""
