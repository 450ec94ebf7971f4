# SPDX-License-Identifier: Apache-2.0
"""One host's part in the proof of a fabric: what it sends, serves and reads."""
