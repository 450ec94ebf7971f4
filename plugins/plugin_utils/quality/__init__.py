# SPDX-License-Identifier: Apache-2.0
"""Whether a server still gives the answers that it gave before."""
