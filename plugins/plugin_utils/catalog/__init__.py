# SPDX-License-Identifier: Apache-2.0
"""The catalog: data files about hardware, stacks, models and more, and the validation of their fields."""
