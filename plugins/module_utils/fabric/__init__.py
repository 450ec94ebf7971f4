# SPDX-License-Identifier: Apache-2.0
"""The fabric of a host: which ports it has, which of them the plan's rails are on, and what programs are told of them.

Everything here is pure; module_utils/fabric/fabric_ports.py is what reads a host.
"""
