# SPDX-License-Identifier: Apache-2.0
"""A change that rolls itself back unless it is confirmed in time."""
