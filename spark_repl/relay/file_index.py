"""FileIndex: the transactions of one log file as fixed-size records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..binlog.events.transaction import Stop

if TYPE_CHECKING:
    import numpy as np

    from ..errors import LogError
    from .growing_records import GrowingRecords
    from .repeated import Received
    from .split import Open


@dataclass(frozen=True, slots=True)
class FileIndex:
    """The index of one file. ``records`` use the file's own number, without the history's base."""

    number: int
    fingerprint: str
    records: np.ndarray
    scanned: int
    """offset behind everything complete: the scan goes on here"""
    checksum: bool
    """whether the events at ``scanned`` carry a CRC32"""
    closed: bool
    """whether the last event scanned is ROTATE or STOP"""
    size: int = 0
    """bytes of the file at the last scan"""
    stop: Stop = Stop.END
    bad: int = 0
    """offset of the event that stopped the scan"""
    damage: LogError | None = None
    """what more bytes can't mend; the records before it are good"""
    before: Open | None = None
    """the transaction that the files before leave open"""
    open: Open | None = None
    """the transaction that is open at the file's end, where a later file may go on with it"""
    lost_to: int = 0
    """behind the last event of a transaction whose beginning is in no file that is there"""
    earlier: Received | None = None
    """what files before hold and this one may repeat; None: that was not looked at"""
    growing: GrowingRecords | None = None
    """where ``records`` lie, once some were appended"""
