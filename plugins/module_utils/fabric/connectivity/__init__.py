# SPDX-License-Identifier: Apache-2.0
"""One host's part in the connectivity test of a fabric: what it sends, serves and reads."""
