"""Cascades of foreign keys that the source's storage engine carries out without logging them."""
