# SPDX-License-Identifier: Apache-2.0
"""Driver, CUDA toolkit, container runtime and virtual environment of a plan, and where their packages come from."""
