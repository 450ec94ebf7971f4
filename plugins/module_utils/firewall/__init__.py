# SPDX-License-Identifier: Apache-2.0
"""The firewall of a host: its rules, the rules in force, and changes that roll themselves back."""
