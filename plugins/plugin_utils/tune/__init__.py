# SPDX-License-Identifier: Apache-2.0
"""Tune serving settings: the order of trials, what is kept, and how an interrupted run resumes."""
