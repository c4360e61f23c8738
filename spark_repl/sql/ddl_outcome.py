"""DdlOutcome: what the applier did for a statement, as the log and ``status`` show it.

``write.alter.table_changes`` decides about ALTER TABLE (metadata only, or a rewrite),
``apply.statements.alterations`` about definitions alone, ``apply.statements`` about a copy.
"""

from __future__ import annotations

from enum import StrEnum


class DdlOutcome(StrEnum):
    """What the applier did for a statement."""

    METADATA = "metadata only"
    """one commit of the table, whatever its size"""
    REWRITE = "rewrite"
    """all data files are written again"""
    PARTITIONS_DROPPED = "partitions dropped"
    PARTITIONS_EMPTIED = "partitions emptied"
    """one commit of the table, without the rows of these partitions"""
    DEFINITION = "definition only"
    """no commit of the table: what is known of it changes"""
    NAMES = "names"
    """the next cut shows other tables, or under other names"""
    COPY = "copy"
    """the table is copied from the source"""
    NOTHING = "nothing"
    LEFT_OUT = "left out"
    """by a policy, by hand (skip), or as it concerns an online schema-change tool's table"""
