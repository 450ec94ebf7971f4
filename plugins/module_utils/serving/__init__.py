# SPDX-License-Identifier: Apache-2.0
"""Inspect, wait for, stop and remove the services of a host that serve models."""
