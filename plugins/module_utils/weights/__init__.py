# SPDX-License-Identifier: Apache-2.0
"""A model's files: where they come from, which are fetched, and the proof of every byte."""
