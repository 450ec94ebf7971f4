# SPDX-License-Identifier: Apache-2.0
"""The burn-in: a short run on every GPU that shows whether it computes, and how it is started on a host."""
