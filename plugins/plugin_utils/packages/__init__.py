# SPDX-License-Identifier: Apache-2.0
"""APT sources with their signing keys."""
