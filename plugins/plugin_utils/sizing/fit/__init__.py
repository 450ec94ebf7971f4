# SPDX-License-Identifier: Apache-2.0
"""Whether a model may be split so, and whether it fits."""
