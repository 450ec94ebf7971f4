# SPDX-License-Identifier: Apache-2.0
"""The parts of the module `host_settings`: settings that are changed with a ledger of their former values."""
