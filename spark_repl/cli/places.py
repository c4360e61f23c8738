"""Places where an applier runs: the files that ``init --on PLACE`` writes, and what each refuses.

A file comes from ``templates/``. There ``@config@`` is replaced by the configuration's name, and
``@name@`` by the job's. docs/run-on/ has a page for each place, with the tests that were run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.relative_paths import is_relative
from ..copy.survey import ERROR, WARNING, Finding
from ..runtime.executor_disk import executor_disk
from ..runtime.target_uri import canonical, is_remote
from ..source.account import is_local

if TYPE_CHECKING:
    from ..config import Config

_TEMPLATES = Path(__file__).with_name("templates")
_VOLUME = "/var/lib/spark_repl/data"


@dataclass(frozen=True)
class Place:
    """A place. ``files``: templates of the files in its folder; ``values``: keys that ``init``
    writes for this place if no flag gives them."""

    title: str
    files: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    clustered: bool = True
    """whether executors are on other machines than the driver"""
    managed: bool = True
    """whether the machines, and their disks, end with the job or the cluster"""
    mounted: str = ""
    """a folder for the configuration, on which the log can't be: it lacks locks, renames or mmap"""


_ON_YARN = {"relay.path": "relay", "target.state_path": "state"}
PLACES = {
    "laptop": Place("this machine", clustered=False, managed=False),
    "standalone": Place("a standalone cluster", ("submit.sh", "job.py"), managed=False),
    "kubernetes": Place(
        "Kubernetes, as a pod without executors", ("kubernetes.yaml",),
        {"relay.path": f"{_VOLUME}/relay", "target.state_path": f"{_VOLUME}/state"},
        clustered=False, mounted="/etc/spark_repl",
    ),
    "yarn": Place("YARN", ("submit.sh", "job.py"), _ON_YARN),
    "emr": Place("Amazon EMR", ("submit.sh", "job.py"), _ON_YARN),
    "glue": Place("AWS Glue", ("submit.sh", "job.json", "job.py"), _ON_YARN),
    "databricks": Place(
        "Databricks", ("job.json", "job.py"),
        {"relay.path": "/local_disk0/spark_repl/relay",
         "target.state_path": "/local_disk0/spark_repl/state"}, mounted="/Volumes",
    ),
    "fabric": Place(
        "Microsoft Fabric", ("job.json", "job.py"),
        {"relay.path": "/tmp/spark_repl/relay", "target.state_path": "/tmp/spark_repl/state"},
        mounted="/lakehouse",
    ),
    "dataproc": Place("Google Dataproc", ("submit.sh", "job.py"), _ON_YARN),
}  # fmt: skip


def place_files(name: str, config: str, text: str, channel: str) -> dict[str, str]:
    """Return the files of a place by name. ``config``: the configuration's name; ``text``: its
    content."""
    values = {
        "config": os.path.basename(config),
        "name": f"spark-repl-{channel}".replace("_", "-"),
        "indented_config": "\n".join(f"    {line}".rstrip() for line in text.splitlines()),
    }
    files = {}
    for file in PLACES[name].files:
        template = _TEMPLATES / ("job.py.in" if file == "job.py" else f"{name}/{file}")
        content = template.read_text("utf-8")
        for key, value in values.items():
            content = content.replace(f"@{key}@", value)
        files[file] = content
    return files


def place_findings(name: str, config: Config, values: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the settings that a place refuses or requires, for a configuration. ``values``: the
    keys of the file, with paths as they are in the file."""
    place = PLACES[name]
    if place.mounted:
        yield from _mounted(place, values)
    if place.clustered:
        yield from _disks(place, config)
        yield from _executors(place, config)
    if place.managed and config.source.socket:
        yield Finding(ERROR, f"source.socket: {place.title} has no socket of the server",
                      "give source.host and source.port")  # fmt: skip
    if place.managed and config.apply.lease_s == 0:
        yield Finding(
            WARNING, f"apply.lease_s = 0: on {place.title} the next driver has another host, and"
            " needs --take-over", "set apply.lease_s to 30",
        )  # fmt: skip


def _disks(place: Place, config: Config) -> Iterator[Finding]:
    """Yield what the disks of a cluster lack."""
    if not is_remote(canonical(config.target.path)):
        if place.managed:
            yield Finding(
                ERROR, f'target.path = "{config.target.path}": the driver and the executors of'
                f" {place.title} share no such folder, and it ends with the cluster",
                'give a bucket: target.path = "s3://...", "gs://..." or "abfss://..."',
            )  # fmt: skip
        else:
            yield Finding(
                WARNING, f'target.path = "{config.target.path}": all machines have to mount it,'
                " and relay.path, under these paths",
                "give a bucket, or mount the folders on every machine",
            )  # fmt: skip
    elif executor_disk("", config) is None:
        yield Finding(
            ERROR if place.managed else WARNING,
            f'relay.archive = "{config.relay.archive}": executors would read relay.path and'
            " target.state_path from the driver's disk",
            "leave relay.archive out: the archive is below the target then",
        )  # fmt: skip


def _mounted(place: Place, values: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the paths that would be beside the configuration, on a mount that can't hold them."""
    for section, key, default in (
        ("relay", "path", "relay"), ("target", "path", "lake"), ("target", "state_path", "")
    ):  # fmt: skip
        path = str(values.get(section, {}).get(key, default))
        if is_relative(path) or path.startswith(f"{place.mounted}/"):
            best = place.values.get(f"{section}.{key}", f"{_VOLUME}/{default}")
            yield Finding(
                ERROR, f'{section}.{key} = "{path}" is below {place.mounted} on {place.title},'
                " which can't hold it", f'set {section}.{key} = "{best}"',
            )  # fmt: skip


def _executors(place: Place, config: Config) -> Iterator[Finding]:
    """Yield what the executors need: they log in to the source for copies and verify."""
    source = config.source
    if is_local(source) and not source.socket:
        yield Finding(
            ERROR if place.managed else WARNING,
            f'source.host = "{source.host}": each executor would connect to its own machine',
            "give the name by which every machine reaches the server",
        )  # fmt: skip
    if source.password_env:
        yield Finding(
            WARNING, f"source.password_env: ${source.password_env} has to be in the environment of"
            " the driver and of each executor",
            "source.password_command can read it from a secret store",
        )  # fmt: skip
    for key in ("password_file", "tls_ca", "tls_cert", "tls_key"):
        if path := getattr(source, key):
            yield Finding(
                WARNING, f'source.{key} = "{path}" has to be on the driver and on each executor',
                "put it into the image, or on a mount",
            )  # fmt: skip
