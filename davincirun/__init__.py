"""The open launcher for Ascend NPUs: one worker per card, one rank table, one exit status."""

__version__ = "0.1.0"
