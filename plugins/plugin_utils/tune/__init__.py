# SPDX-License-Identifier: Apache-2.0
"""Which settings of serving are tried in which order, what is kept of them, and how a run that was cut off goes on."""
