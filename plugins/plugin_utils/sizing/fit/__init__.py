# SPDX-License-Identifier: Apache-2.0
"""Whether a model may be split in a given way, and whether it fits."""
