"""Logged statements: DDL that is applied alone, between two groups."""
