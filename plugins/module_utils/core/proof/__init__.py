# SPDX-License-Identifier: Apache-2.0
"""The proof of a fabric: who is tested with whom and when, what was seen, and who is to blame. All of it pure."""
