"""Bits of ``sql_mode`` that say what a value becomes."""

from __future__ import annotations

STRICT = 1 << 21 | 1 << 22
"""STRICT_TRANS_TABLES and STRICT_ALL_TABLES"""
TIME_TRUNCATE_FRACTIONAL = 1 << 32
PAD_CHAR_TO_FULL_LENGTH = 1 << 31
