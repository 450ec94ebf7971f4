# SPDX-License-Identifier: Apache-2.0
"""A change that takes itself back unless it is confirmed in time."""
