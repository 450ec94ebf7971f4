# SPDX-License-Identifier: Apache-2.0
"""Does it compute? A short run on every GPU, and how it is started on a host."""
