# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: workloads, the client's command line, and the evaluation of the results."""
