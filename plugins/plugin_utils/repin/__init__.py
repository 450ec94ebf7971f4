# SPDX-License-Identifier: Apache-2.0
"""The controller's side of a re-pin: which hosts move, which are left alone, and the outcome."""
