# SPDX-License-Identifier: Apache-2.0
"""One observation of a host: the probes of all subjects, and what its logs and journals tell of changes."""
