# SPDX-License-Identifier: Apache-2.0
"""The files of a model: where they come from, which of them are fetched, and how each is verified."""
