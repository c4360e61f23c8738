"""Reload: what SIGHUP has changed in the configuration's file, taken over while all goes on.

Keys that can't be changed meanwhile are refused by name, in the log and in status, and keep the
values that they have. The receiver reads the file itself, so it is started anew only where nothing
of it is refused that it would read.
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

log = logging.getLogger(__name__)

HERE = ("observe.verify_hours", "observe.verify_rows_per_s", "apply.xa_age_limit_s")
RECEIVER = (
    "source.password", "source.password_env", "source.password_file", "source.password_command",
    "source.tls", "source.tls_ca", "source.tls_cert", "source.tls_key", "source.net_timeout_s",
    "source.connect_retry_s", "source.connect_retry_max_s", "source.connect_retry_count",
    "relay.space_limit_bytes", "relay.sync_every_transactions", "relay.sync_interval_ms",
)  # fmt: skip
"""for these the receiver is started anew, which loses nothing"""
_READ_BY_RECEIVER = ("source.", "relay.", "channel")
_POLL_S = 0.2


class Reload:
    """Waits until it is ``asked`` to, within its ``with`` block. ``known``: what the file said when
    the run began, without what the command line has said."""

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
        """Takes over what can be; says what can't. Raises nothing: a file with faults changes
        nothing."""
        try:
            new = load(self._file)
            new.check_supported()
        except ConfigError as error:
            self._say(f"the configuration was not reloaded: {error}", "mend it, and send SIGHUP")
            return
        changed = [name for name in new.names() if value_of(new, name) != self._value(name)]
        refused = [name for name in changed if name not in (*HERE, *RECEIVER)]
        if any(name.startswith(_READ_BY_RECEIVER) for name in refused):
            refused += [name for name in changed if name in RECEIVER]
        taken = [name for name in changed if name not in refused]
        self._take(new, taken)
        if taken:
            log.warning("reloaded: %s", ", ".join(taken))
        if refused:
            self._say(
                f"not reloaded, the old values stay: {', '.join(refused)}",
                "start run again for these",
            )
        else:
            self._applier.note("reload", None)
            log.info("nothing else has changed")

    def _value(self, name: str) -> object:
        return value_of(self._known, name)

    def _say(self, what: str, hint: str) -> None:
        log.warning("%s", what)
        self._applier.note("reload", Notice(what, hint))

    def _take(self, new: Config, names: list[str]) -> None:
        self._known = self._known.override({name: value_of(new, name) for name in names})
        self._verify.reload(self._known.observe)
        self._applier.reload(self._known.apply)
        if any(name in RECEIVER for name in names):
            self._recopier.reload(self._known)
            self._receiver.reload(self._known)
            self._receiver.restart()
