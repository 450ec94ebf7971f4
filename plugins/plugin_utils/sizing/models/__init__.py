# SPDX-License-Identifier: Apache-2.0
"""A model's dimensions and weights, read from its config.json."""
