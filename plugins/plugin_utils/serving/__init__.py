# SPDX-License-Identifier: Apache-2.0
"""Status reports of a serving cluster, and the checks before it is changed."""
