# SPDX-License-Identifier: Apache-2.0
"""Check whether a server still gives the same answers as before."""
