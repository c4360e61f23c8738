"""The retained row changes of a table in quarantine, decoded for an operator."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..alter.rename import rename
from ..binlog.types.forms import Forms
from ..control.records.definitions import Definitions
from ..control.records.name_case import NameCase
from ..control.records.quarantine import mark_of
from ..control.records.recorded_filters import recorded
from ..decode.known_tables import OnlyTable
from ..decode.read_changes import table_batches
from ..decode.spans import read_images, slices
from ..delta.store import storage
from ..delta.store.delta_rs_read import opened
from ..errors import SparkReplError
from ..gtid import GtidSet
from ..position import RelayPosition
from ..relay.record import RECORD
from ..runtime.private_files import private_opener
from ..runtime.target_uri import is_remote
from ..write.tables.table_metadata import DEFINITION, defined

if TYPE_CHECKING:
    from ..control.records.quarantine import Quarantine
    from ..control.table.control import Control
    from ..control.table.layout import Layout
    from ..control.transaction_files.quarantine_store import KeptTransactions, QuarantineStore
    from ..relay.span import Span
    from ..tables.source_table import SourceTable

_FORMS = Forms("string", text_errors="replace")
_COLUMNS = ("operation", "gtid", "position", "commit_time", "before", "after")


def kept_rows(
    layout: Layout, control: Control, store: QuarantineStore, quarantine: Quarantine
) -> Iterator[dict[str, Any]]:
    """Yield each retained change in the log's order, like ``read_changes``, but without the table.

    A part that can't be decoded is an ``error`` with its GTID. Raise TargetError or OSError.
    """
    names, filters = NameCase(control), recorded(control)[0]
    names.load()
    rewrites = (filters.folded() if names.folds else filters).rewrites
    tables = OnlyTable(quarantine.name, _definition(layout, control, quarantine), rewrites)
    extent = mark_of(control.last_cut(), quarantine.path)
    for part in store.kept(quarantine.id, extent.by_owner if extent else {}):
        with _local_file(part.path) as path:
            for span, first in part.spans(path):
                yield from _changes_of(span, part, first, tables)


@contextmanager
def _local_file(path: str) -> Iterator[str]:
    """Yield a local path of a file of the target: a temporary copy if it is on an object store."""
    if not is_remote(path):
        yield path
        return
    with TemporaryDirectory(prefix="spark_repl-") as folder:
        copied = os.path.join(folder, "events")
        with storage.open_input(path) as source, open(copied, "wb", opener=private_opener) as out:
            shutil.copyfileobj(source, out)
        yield copied


def _definition(layout: Layout, control: Control, quarantine: Quarantine) -> SourceTable:
    """Return the table's definition after its statements, for logs that name no columns."""
    definitions = Definitions(control)
    definitions.load()
    definition = definitions.at(quarantine.path, quarantine.held_from, GtidSet())
    if definition is None:
        folder = layout.table(quarantine.path)
        with opened(folder) as table:
            definition = defined(table.metadata().configuration[DEFINITION], folder)
    return rename(definition.source, quarantine.name)


def _changes_of(
    span: Span, kept: KeptTransactions, first: int, tables: OnlyTable
) -> Iterator[dict[str, Any]]:
    records = np.zeros(len(span), RECORD)
    last = first + len(span)
    records["position"], records["commit_time"] = kept.at[first:last], kept.commit_times[first:last]
    gtids = pa.array(kept.gtids[first:last], pa.string())
    for begin, end in slices(span):
        try:
            changes = []
            for images, ordinals, _ in read_images(
                span.part(begin, end),
                np.arange(begin, end),
                definitions=tables,
                forms=_FORMS,
                pairs=True,
            ):
                if not tables.is_logged_as(images.definition.name):
                    continue
                for batch in table_batches(images, records, gtids, ordinals, _FORMS):
                    changes += batch.select(list(_COLUMNS)).to_pylist()
        except SparkReplError as error:
            yield {"error": str(error), "gtid": kept.gtids[first + begin]}
            continue
        for change in sorted(changes, key=lambda change: change["position"]):
            yield {**change, "position": str(RelayPosition.unpack(change["position"]))}
