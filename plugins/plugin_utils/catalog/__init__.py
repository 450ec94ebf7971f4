# SPDX-License-Identifier: Apache-2.0
"""The catalog: what is known, as data files, and the check of their fields."""
