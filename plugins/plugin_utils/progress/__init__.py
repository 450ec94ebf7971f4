# SPDX-License-Identifier: Apache-2.0
"""The display of a run."""
