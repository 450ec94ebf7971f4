# SPDX-License-Identifier: Apache-2.0
"""The software stack of a plan: driver, CUDA toolkit, container runtime, virtual environment, and package sources."""
