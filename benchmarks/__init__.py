"""Measurements against peers, in one run on one machine. See README.md in this directory."""
