# SPDX-License-Identifier: Apache-2.0
"""Evaluate the connectivity test over all hosts, and locate faults."""
