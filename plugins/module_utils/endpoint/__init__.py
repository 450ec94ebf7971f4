# SPDX-License-Identifier: Apache-2.0
"""The endpoint's private files: its clients' keys and its certificate, and how they are maintained."""
