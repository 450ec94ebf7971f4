# SPDX-License-Identifier: Apache-2.0
"""Expected performance, and the advice that follows from it."""
