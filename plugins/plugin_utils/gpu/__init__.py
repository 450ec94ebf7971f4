# SPDX-License-Identifier: Apache-2.0
"""Evaluate the GPUs of several hosts together, and render the results."""
