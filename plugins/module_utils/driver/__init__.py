# SPDX-License-Identifier: Apache-2.0
"""The NVIDIA driver of a host: what is installed, what is loaded, and what may be touched."""
