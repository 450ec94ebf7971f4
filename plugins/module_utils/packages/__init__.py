# SPDX-License-Identifier: Apache-2.0
"""Sets of apt packages: planning a move, rehearsing it, the local package store, and the rollback."""
