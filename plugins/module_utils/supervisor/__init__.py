# SPDX-License-Identifier: Apache-2.0
"""The supervisor: a small program on each node that starts and stops a serving group as a whole (docs/serving.md)."""
