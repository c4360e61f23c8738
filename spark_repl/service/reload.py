"""Reload: takes over changes of the configuration's file at SIGHUP, while everything runs.

Keys that can't change during a run are refused by name, in the log and in status, and keep their
values. The receiver reads the file itself, so it restarts only if no key that it reads is refused.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from ..config import Config, load, value_of
from ..errors import ConfigError
from ..observe.reports.applier_status import Notice
from ..runtime.companion import Companion

if TYPE_CHECKING:
    from typing import Self

    from ..apply.start.replica import Replica
    from ..copy.recopy import Recopier
    from .scheduled_verify import ScheduledVerify
    from .supervisor import Supervisor

logger = logging.getLogger(__name__)

HERE = ("observe.verify_hours", "observe.verify_rows_per_s", "apply.xa_age_limit_s")
RECEIVER = (
    "source.password", "source.password_env", "source.password_file", "source.password_command",
    "source.tls", "source.tls_ca", "source.tls_cert", "source.tls_key", "source.net_timeout_s",
    "source.connect_retry_s", "source.connect_retry_max_s", "source.connect_retry_count",
    "relay.space_limit_bytes", "relay.sync_every_transactions", "relay.sync_interval_ms",
)  # fmt: skip
"""keys that restart the receiver, which loses nothing"""
_READ_BY_RECEIVER = ("source.", "relay.", "channel")
_POLL_S = 0.5


class Reload:
    """Reloads the configuration when ``asked`` is set, within its ``with`` block.

    ``known``: the file's configuration at the start of the run, without the command line's values.
    """

    def __init__(
        self,
        known: Config,
        config_file: str,
        asked: threading.Event,
        receiver: Supervisor,
        applier: Replica,
        recopier: Recopier,
        verify: ScheduledVerify,
    ) -> None:
        self._file, self._receiver, self._applier = config_file, receiver, applier
        self._recopier, self._verify = recopier, verify
        self._asked = asked
        self._known = known
        attempts = known.apply.transaction_retries
        self._companion = Companion(
            "reload", self.turn, applier.fail, pause_s=_POLL_S, attempts=attempts
        )

    def __enter__(self) -> Self:
        self._companion.__enter__()
        return self

    def __exit__(self, *args: object) -> None:
        self._companion.__exit__(*args)

    def turn(self) -> bool:
        if self._asked.is_set():
            self._asked.clear()
            self.reload()
        return True

    def reload(self) -> None:
        """Apply the changes that are possible while the process runs, and report the others.

        Do not raise: a file with errors changes nothing.
        """
        try:
            new = load(self._file)
            new.check_supported()
        except ConfigError as error:
            self._report(
                f"the configuration was not reloaded: {error}", "correct it, and send SIGHUP"
            )
            return
        changed = [name for name in new.names() if value_of(new, name) != self._value(name)]
        refused = [name for name in changed if name not in (*HERE, *RECEIVER)]
        if any(name.startswith(_READ_BY_RECEIVER) for name in refused):
            refused += [name for name in changed if name in RECEIVER]
        changed = [name for name in changed if name not in refused]
        self._apply(new, changed)
        if changed:
            logger.warning("reloaded: %s", ", ".join(changed))
        if refused:
            self._report(
                f"not reloaded, the old values stay: {', '.join(refused)}",
                "start run again for these",
            )
        else:
            self._applier.note("reload", None)
            logger.info("nothing else has changed")

    def _value(self, name: str) -> object:
        return value_of(self._known, name)

    def _report(self, what: str, hint: str) -> None:
        logger.warning("%s", what)
        self._applier.note("reload", Notice(what, hint))

    def _apply(self, new: Config, names: list[str]) -> None:
        self._known = self._known.override({name: value_of(new, name) for name in names})
        self._verify.reload(self._known.observe)
        self._applier.reload(self._known.apply)
        if any(name in RECEIVER for name in names):
            self._recopier.reload(self._known)
            self._receiver.reload(self._known)
            self._receiver.restart()
