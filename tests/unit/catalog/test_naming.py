"""The names that tables have in a catalog."""

from __future__ import annotations

import re

import pytest

from spark_repl.catalog.entry import EntryName
from spark_repl.catalog.managed import managed_tables
from spark_repl.catalog.naming import Naming
from spark_repl.config import Config
from tests.support.unity_server import unity_server


@pytest.mark.parametrize(
    ("settings", "name", "expected"),
    [
        ({}, "shop.orders", "shop.orders"),
        ({"schema": "prod_{database}"}, "shop.orders", "prod_shop.orders"),
        ({"schema": "lake", "table": "{database}_{table}"}, "shop.orders", "lake.shop_orders"),
        ({"schema": "{channel}_{database}"}, "shop.orders", "eu_shop.orders"),
        ({"names": ["shop.orders->sales.all_orders"]}, "shop.orders", "sales.all_orders"),
        ({}, "Shop.Order-Items", "shop.order_items"),
        ({}, "shop.größe", "shop.gr__e"),
        ({}, "a@002eb.c.d", "a_b.c_d"),
    ],
)
def test_templates_and_mappings_name_an_entry(
    settings: dict[str, object], name: str, expected: str
) -> None:
    config = Config.from_mapping({"channel": "eu", "catalog": settings})
    assert str(Naming.of(config).name_of(name)) == expected


def test_the_table_that_has_the_name_exactly_has_it_of_several() -> None:
    assigned, ambiguous = Naming().assign(["shop.a-b", "shop.a_b", "shop.c"])
    assert assigned == {EntryName("shop", "a_b"): "shop.a_b", EntryName("shop", "c"): "shop.c"}
    assert ambiguous == {EntryName("shop", "a_b"): "shop.a-b, shop.a_b"}


def test_no_table_has_a_name_that_none_of_several_has_exactly() -> None:
    assigned, ambiguous = Naming().assign(["shop.Orders", "shop.ORDERS"])
    assert assigned == {}
    assert list(ambiguous) == [EntryName("shop", "orders")]


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"schema": "{db}"}, "must be a name of letters"),
        ({"table": ""}, "must be a name of letters"),
        ({"names": ["shop.orders"]}, 'must be a list of "db.table->schema.table"'),
        ({"names": ["shop.orders->sales"]}, 'must be a list of "db.table->schema.table"'),
        ({"metastore": "host:9083"}, 'must be "thrift://host:port"'),
    ],
)
def test_a_wrong_name_is_a_fault(settings: dict[str, object], fault: str) -> None:
    with pytest.raises(Exception, match=fault.replace("(", r"\(")):
        Config.from_mapping({"catalog": settings})


def test_several_metastores_are_accepted() -> None:
    uris = "thrift://a:9083,thrift://b:9083"
    config = Config.from_mapping({"catalog": {"name": "spark_catalog", "metastore": uris}})
    assert config.catalog.spark_settings()["spark.hadoop.hive.metastore.uris"] == uris


def test_another_catalog_is_refused_by_name() -> None:
    with pytest.raises(Exception, match=r'catalog\.name = "unity" is not supported'):
        Config.from_mapping({"catalog": {"name": "unity"}})


MANAGED = {"managed": True, "name": "main", "uri": "https://host/api/2.1/unity-catalog"}


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"managed": False}, "catalog.uri needs catalog.managed"),
        ({"name": ""}, "catalog.managed needs catalog.name"),
        ({"uri": ""}, "catalog.managed needs catalog.uri"),
        ({"uri": "https://user@host/api"}, "catalog.uri must be"),
        ({"cut_views": True}, "does not go with catalog.cut_views"),
        (
            {"token_env": "A", "token_file": "b"},
            "one of catalog.token_env, catalog.token_file",
        ),
        ({"uri": "http://host/api", "token_env": "A"}, "would show the token"),
    ],
)
def test_managed_tables_need_a_catalog(settings: dict[str, object], fault: str) -> None:
    Config.from_mapping({"catalog": MANAGED})
    local = {**MANAGED, "uri": "http://127.0.0.1:8080/api", "token_env": "A"}
    Config.from_mapping({"catalog": local})
    with pytest.raises(Exception, match=re.escape(fault)):
        Config.from_mapping({"catalog": {**MANAGED, **settings}})


def test_managed_tables_have_deletion_vectors_and_one_writer() -> None:
    vectors = {"catalog": MANAGED, "target": {"deletion_vectors": False}}
    with pytest.raises(Exception, match=r"needs target\.deletion_vectors"):
        Config.from_mapping(vectors)


def test_a_managed_table_has_the_name_of_its_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    with unity_server("file:///lake", token="secret") as server:
        monkeypatch.setenv("TOKEN", "secret")
        catalog = {**MANAGED, "uri": server.url, "schema": "prod_{database}", "token_env": "TOKEN"}
        managed = managed_tables(Config.from_mapping({"catalog": catalog}))
        assert managed is not None and str(managed._name_of("Shop.a")) == "main.prod_shop.a"
        managed.catalog.check("main")
    assert managed_tables(Config()) is None
