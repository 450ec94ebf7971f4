# SPDX-License-Identifier: Apache-2.0
"""The fabric of a host: its ports, which of them carry the plan's rails, and the settings derived from them.

The modules that evaluate are pure; fabric_ports.py, firmware_probe.py, qos_host.py and connectivity/ access a host.
"""
