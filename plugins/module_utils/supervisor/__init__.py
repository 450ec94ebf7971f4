# SPDX-License-Identifier: Apache-2.0
"""The supervisor: one small program a node that keeps a serving group up as a whole (docs/serving.md)."""
