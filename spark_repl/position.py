"""RelayPosition: a place in the relay log as one ordered number."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import ConfigError, LogError

OFFSET_BITS = 40
OFFSET_MASK = (1 << OFFSET_BITS) - 1
MAX_FILE_NO = (1 << 23) - 1


@dataclass(frozen=True, order=True, slots=True)
class RelayPosition:
    """A file and an offset in bytes. ``file_no``: the log id's base plus the number in the file's
    name.

    A position packs into one int64 (``file_no << 40 | offset``), which Delta's ``txn`` action
    holds. Packed numbers have the order of the positions. Zero is before every position.
    """

    file_no: int
    offset: int

    def __post_init__(self) -> None:
        if not 0 <= self.file_no <= MAX_FILE_NO or not 0 <= self.offset <= OFFSET_MASK:
            raise LogError(
                f"relay position {self.file_no}:{self.offset} does not fit: file numbers end at"
                f" {MAX_FILE_NO}, offsets at {OFFSET_MASK}",
                hint="start a new relay log, whose numbers begin again",
            )

    @property
    def packed(self) -> int:
        return self.file_no << OFFSET_BITS | self.offset

    @classmethod
    def unpack(cls, packed: int) -> RelayPosition:
        return cls(packed >> OFFSET_BITS, packed & OFFSET_MASK)

    @classmethod
    def parse(cls, text: str) -> RelayPosition:
        """Parse the text that ``str`` prints, or a file's name and an offset
        (``binlog.000012:4711``). Raise ConfigError."""
        file, _, offset = text.rpartition(":")
        number = file.rpartition(".")[2]
        if not number.isdigit() or not offset.isdigit():
            raise ConfigError(f"{text!r} is not a relay position", hint="write it as FILE:OFFSET")
        return cls(int(number), int(offset))

    def __str__(self) -> str:
        return f"{self.file_no:06d}:{self.offset}"


START = RelayPosition(0, 0)
