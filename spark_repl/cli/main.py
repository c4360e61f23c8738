"""The command line. Exit 0: done, 1: stopped by an error, 2: bad usage or configuration."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from ..errors import ConfigError, SetupError, SparkReplError, extra_named
from ..runtime.threads import OF_CHANNEL, under_channel
from . import log_lines
from .argument_parser import parser
from .error_report import report

# Command -> module of this room and function. A command loads only what it needs.
_RUN = {
    "setup": "setup.setup",
    "init": "init_command.init",
    "config check": "config_command.check_config",
    "config show": "config_command.show_config",
    "config explain": "config_command.explain_config",
    "demo": "bench_commands.demo",
    "apply": "replication_commands.apply",
    "run": "replication_commands.run_replication",
    "snapshot": "replication_commands.snapshot",
    "receive": "replication_commands.receive",
    "verify": "verify_command.verify",
    "status": "status_command.show_status",
    "report": "status_command.report",
    "cut head": "cut_command.print_head",
    "cut list": "cut_command.list_cuts",
    "cut show": "cut_command.show_cut",
    "cut pin": "cut_command.pin_cut",
    "cut unpin": "cut_command.unpin_cut",
    "cut export": "cut_command.export_cut",
    "wait": "cut_command.wait",
    "cut publish": "catalog_command.publish_cut",
    "cut unpublish": "catalog_command.unpublish_cut",
    "catalog sync": "catalog_command.sync_catalog",
    "relay ls": "relay_commands.list_relay",
    "relay dump": "relay_commands.dump_relay",
    "relay verify": "relay_commands.verify_relay",
    "relay purge": "relay_commands.purge_relay",
    "reset": "operator_commands.reset",
    "target move": "operator_commands.move",
    "skip": "operator_commands.skip",
    "xa list": "operator_commands.list_branches",
    "xa commit": "operator_commands.end_branch",
    "xa rollback": "operator_commands.end_branch",
    "quarantine list": "quarantine_command.list_quarantined",
    "quarantine show": "quarantine_command.show_quarantined",
    "quarantine replay": "quarantine_command.replay_quarantined",
    "quarantine drop": "quarantine_command.drop_quarantined",
    "bench decode": "bench_commands.decode_bench",
    "bench receive": "bench_commands.receive_bench",
    "bench snapshot": "bench_commands.snapshot_bench",
    "bench latency": "bench_commands.latency_bench",
    "bench endurance": "bench_commands.endurance_bench",
    "bench ddl": "bench_commands.ddl_bench",
    "bench apply": "bench_commands.apply_bench",
}
_CURES = {
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS),
        "this account has to write there: its mode or owner, how it is mounted, or another path",
    ),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "a folder is needed there: give another path"),
    errno.ENOENT: "it is missing: create it or its folder, or give another path",
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room, and start again"),
}
"""hints by the system's error number"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code."""
    commands = parser(_RUN)
    if not (sys.argv[1:] if arguments is None else arguments):
        commands.print_help()
        return 0
    options = commands.parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO if getattr(options, "verbose", False) else logging.WARNING,
        handlers=[log_lines.StandardError()],
    )
    log_lines.log_as(getattr(options, "log_format", None) or "text")
    # Py4J logs the end of a batch with a traceback, also the end at --until.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_py4j)
    with under_channel(os.environ.get(OF_CHANNEL, "")):
        return _done(options)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    """Return False for the tracebacks that py4j logs without a logger of its own: Ctrl-C, or the
    end of the JVM, while it waits for an answer."""
    return not str(record.msg).endswith(" while sending command.")


def _done(options: argparse.Namespace) -> int:
    """Run the command, report an error that stopped it, and return the exit code."""
    try:
        with extra_named():
            module, _, function = options.run.partition(".")
            run = getattr(import_module(f".{module}", __package__), function)
            return int(run(options) or 0)
    except (ConfigError, SetupError) as error:
        report(error, vars(options))
        return 2
    except SparkReplError as error:
        report(error, vars(options))
        return 1
    except KeyboardInterrupt:
        print("Interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        report(_refused(error))
        logging.getLogger(__name__).info("raised here", exc_info=True)
        return 1


def _refused(error: OSError) -> SparkReplError:
    """Return a system's error with the path that it names."""
    path = error.filename
    return SparkReplError(
        error.strerror or str(error) or type(error).__name__,
        file=os.fsdecode(path) if isinstance(path, str | bytes) else None,
        hint=_CURES.get(error.errno or 0),
    )


if __name__ == "__main__":
    sys.exit(main())
