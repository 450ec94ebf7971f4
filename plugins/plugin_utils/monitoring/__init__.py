# SPDX-License-Identifier: Apache-2.0
"""What a monitoring host is given: what to scrape, when to alert, and what to show."""
