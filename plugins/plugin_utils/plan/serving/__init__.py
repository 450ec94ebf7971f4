# SPDX-License-Identifier: Apache-2.0
"""What serves: the engine, its settings, its launch, and who keeps it up."""
