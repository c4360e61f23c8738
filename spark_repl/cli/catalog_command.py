"""``spark-repl catalog``: compare a catalog with the newest cut, and repair it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.entry import EntryOwner
from ..catalog.registrar import table_registration
from ..catalog.registration import apply_difference
from ..catalog.session_catalog import SessionCatalog
from ..config import load
from ..control.cuts.cut_reader import find_cut
from ..control.records.channels import opened
from ..errors import ConfigError
from ..runtime.target_uri import canonical
from .output import emit

if TYPE_CHECKING:
    import argparse


def sync_catalog(options: argparse.Namespace) -> int:
    """Print how the catalog differs from the newest cut; repair it, unless it is a dry run.

    Raise ConfigError if the configuration names no catalog, and CatalogError if the catalog does
    not answer.
    """
    config = load(options.config)
    config.check_supported()
    if not config.catalog.name:
        raise ConfigError(
            "the configuration names no catalog", hint='set catalog.name = "spark_catalog"'
        )
    from ..runtime.spark_session import build_session

    at = opened(config)
    cut = find_cut(at.control, "latest")
    former = (
        [EntryOwner(canonical(options.moved_from), config.channel)] if options.moved_from else []
    )
    registration = table_registration(config, at, former)
    settings = config.catalog.spark_settings()
    spark = build_session(master=options.master, settings=settings, delta=False)
    catalog = SessionCatalog(spark)
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
    if options.json:
        emit({"dry_run": options.dry_run, **changes}, True)
        return 0
    for action, names in changes.items():
        for name in names:
            print(f"{action:10}{name}")
    if not any(changes.values()):
        print(f"the catalog has all {len(registration.wanted(cut).entries)} tables of the cut")
    return 0
