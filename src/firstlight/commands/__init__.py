# SPDX-License-Identifier: Apache-2.0
"""The subcommands: each module has `add_parser`, which defines its arguments, and `run`, which executes it."""
