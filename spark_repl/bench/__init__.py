"""Bench: what this machine does, phase by phase: figures, never tests."""
