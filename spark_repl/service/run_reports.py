"""Where the run of a configuration's channel reports, for `status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..control.channels import layout_of
from ..observe.run_report import RunReport

if TYPE_CHECKING:
    from ..config import Config


def report_of(config: Config) -> RunReport:
    """The report of this process's run; where it lies is asked when something is said."""
    return RunReport(config.channel, lambda: layout_of(config).run)
