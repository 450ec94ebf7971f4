# SPDX-License-Identifier: Apache-2.0
"""What a benchmark measures, how its client is called, and what becomes of the figures."""
