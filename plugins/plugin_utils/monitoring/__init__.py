# SPDX-License-Identifier: Apache-2.0
"""Configuration of a monitoring host: scrape targets, alerts and dashboard."""
