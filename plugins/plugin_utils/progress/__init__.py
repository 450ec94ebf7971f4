# SPDX-License-Identifier: Apache-2.0
"""The progress display of a run."""
