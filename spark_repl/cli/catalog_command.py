"""``spark-repl catalog``: compare a catalog with the newest cut, and repair it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..catalog.entry import EntryOwner
from ..catalog.registrar import cut_views, table_registration
from ..catalog.registration import apply_difference
from ..catalog.session_catalog import SessionCatalog
from ..config import load
from ..control.cuts.cut_reader import find_cut
from ..control.records.channels import opened
from ..control.records.retention import pin, pins, unpin
from ..errors import ConfigError, TargetError
from ..runtime.target_uri import canonical
from .output import emit

if TYPE_CHECKING:
    import argparse

    from ..config import Config


def sync_catalog(options: argparse.Namespace) -> int:
    """Print how the catalog differs from the newest cut; repair it, unless it is a dry run.

    Raise ConfigError if the configuration names no catalog, and CatalogError if the catalog does
    not answer.
    """
    config = _configured(options)
    at = opened(config)
    cut = find_cut(at.control, "latest")
    former = (
        [EntryOwner(canonical(options.moved_from), config.channel)] if options.moved_from else []
    )
    registration = table_registration(config, at, former)
    catalog = _catalog(config, options)
    difference = registration.difference(catalog, cut, catalog.schemas())
    changes = {
        "create": [str(entry.name) for entry in difference.create],
        "replace": [str(entry.name) for entry in difference.replace],
        "drop": [str(name) for name in difference.drop],
        "foreign": [str(name) for name in difference.foreign],
        "ambiguous": [str(name) for name in registration.wanted(cut).ambiguous],
    }
    if not options.dry_run:
        apply_difference(catalog, difference, registration.owner)
        if config.catalog.cut_views:
            views = cut_views(config, at, [owner.target for owner in former])
            for notice in views.carry_out(catalog, cut):
                print(f"{notice.what}\n  Try: {notice.hint}", file=sys.stderr)
    if options.json:
        emit({"dry_run": options.dry_run, **changes}, True)
        return 0
    for action, names in changes.items():
        for name in names:
            print(f"{action:10}{name}")
    if not any(changes.values()):
        print(f"the catalog has all {len(registration.wanted(cut).entries)} tables of the cut")
    return 0


def publish_cut(options: argparse.Namespace) -> int:
    """Pin a cut, and publish it as schemas of views under the name of its pin.

    Without ``--at`` publish the cut that has the pin already, or else the newest one: so the
    command may be repeated after a failure. Raise as ``sync_catalog``, and TargetError if another
    cut or schema has the name.
    """
    config, name = _configured(options), options.name
    at = opened(config)
    is_new = name not in pins(at.control)
    cut = find_cut(at.control, options.at or ("latest" if is_new else name))
    pin(at.control, cut, name)  # first, so that no file can be removed
    views, catalog = cut_views(config, at), _catalog(config, options)
    try:
        schemas = views.publish(catalog, cut, name)
    except TargetError:  # under this name it can't be published later either
        if is_new:
            unpin(at.control, name)
            views.unpublish(catalog, name)
        raise
    fields: dict[str, Any] = {"published": name, "gtid_executed": cut.gtid_executed}
    emit(fields | {"schemas": schemas if options.json else ", ".join(schemas)}, options.json)
    return 0


def unpublish_cut(options: argparse.Namespace) -> int:
    """Remove the schemas of a cut that was published under a name, and its pin. Raise as
    ``sync_catalog``, and TargetError if none has the name."""
    config, name = _configured(options), options.name
    at = opened(config)
    views, catalog = cut_views(config, at), _catalog(config, options)
    schemas = views.published_as(catalog, name)
    if not schemas:
        raise TargetError(
            f"no cut is published as {name}", file=config.target.path,
            hint="spark-repl cut list shows the names; cut unpin removes one that is only pinned",
        )  # fmt: skip
    if name in pins(at.control):  # first: the applier removes what a kill leaves
        unpin(at.control, name)
    views.unpublish(catalog, name)
    emit({"unpublished": name, "schemas": schemas if options.json else ", ".join(schemas)},
         options.json)  # fmt: skip
    return 0


def _configured(options: argparse.Namespace) -> Config:
    """Return the configuration. Raise ConfigError if it names no catalog."""
    config = load(options.config)
    config.check_supported()
    if config.catalog.managed:
        raise ConfigError(
            "the catalog manages the tables: each has its name from its creation",
            hint="see the tables in the catalog: SHOW TABLES IN"
            f" {config.catalog.name}.SCHEMA; for cuts: spark-repl cut list --config F",
        )
    if not config.catalog.name:
        raise ConfigError(
            "the configuration names no catalog", hint='set catalog.name = "spark_catalog"'
        )
    return config


def _catalog(config: Config, options: argparse.Namespace) -> SessionCatalog:
    """Return the catalog of a new session."""
    from ..runtime.spark_session import build_session

    settings = config.catalog.spark_settings()
    return SessionCatalog(build_session(master=options.master, settings=settings, delta=False))
