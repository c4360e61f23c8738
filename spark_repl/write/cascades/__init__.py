"""Cascades of foreign keys that the source carried out without logging them: the workers' part."""
