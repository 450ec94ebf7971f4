# SPDX-License-Identifier: Apache-2.0
"""The observation of a host: probes of all subjects, and the changes recorded in its logs and journals."""
