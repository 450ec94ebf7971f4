# SPDX-License-Identifier: Apache-2.0
"""The subcommands: each module has `add_parser`, which describes one, and `run`, which does it."""
