# SPDX-License-Identifier: Apache-2.0
"""How fast it will be, and what the numbers advise."""
