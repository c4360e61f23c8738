"""Head of a table at a cut: some of its rows, read by delta-rs without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake.exceptions import DeltaError

from ...delta.store.delta_rs_read import opened, read
from ...delta.store.storage import one_line
from ...errors import ConfigError
from ..records.shared_tables import shared_shards
from .cut_reader import shard_column, table_at

if TYPE_CHECKING:
    from ..table.cut import Cut
    from ..table.layout import Layout


def head(layout: Layout, cut: Cut, name: str, rows: int, where: str = "") -> pa.Table:
    """Return at most ``rows`` rows of the table ``name`` (``db.table``) at a cut, in no particular
    order, for which the SQL condition ``where`` is true. If several channels feed the table, return
    only rows of the cut's channel. Raise ConfigError as ``table_at``, and if delta-rs refuses the
    condition."""
    version = table_at(cut, name)
    folder = layout.table(version.path)
    conditions = [f"({where})"] if where else []
    if shards := shared_shards(cut).get(name):
        names = ", ".join("'" + shard.replace("'", "''") + "'" for shard in shards)
        conditions.append(f'"{shard_column(layout, name)}" IN ({names})')
    query = "SELECT * FROM t"
    if conditions:
        query += f" WHERE {' AND '.join(conditions)}"
    try:
        return read(folder, version.version, f"{query} LIMIT {max(0, rows)}")
    except DeltaError as error:
        if not where:
            raise
        with opened(folder, version.version) as table:
            columns = ", ".join(field.name for field in table.schema().fields)
        raise ConfigError(
            f"the condition is refused: {one_line(str(error))}", table=name,
            hint=f"the columns are {columns}; text stands in single quotes",
        ) from error  # fmt: skip
