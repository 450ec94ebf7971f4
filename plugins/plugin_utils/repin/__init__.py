# SPDX-License-Identifier: Apache-2.0
"""A re-pin as the controller sees it: what moves, what is left alone, and what came of it."""
