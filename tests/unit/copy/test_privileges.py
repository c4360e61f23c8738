"""What SHOW GRANTS says of an account, and whether that is enough for a copy."""

from __future__ import annotations

from typing import Any

import pytest

from spark_repl.copy.privileges import check_privileges, wanted_places
from spark_repl.errors import SourceError
from spark_repl.rules.replication_filters import ReplicationFilters

_TO = " TO `repl`@`%`"
_ALL = "GRANT SELECT, REPLICATION SLAVE ON *.*" + _TO


class Source:
    partial_revokes = 0

    def __init__(self, *grants: str, roles: str | None = "NONE") -> None:
        self.grants, self.roles = grants, roles
        self.asked = ""

    def __call__(self, statement: str) -> list[tuple[Any, ...]]:
        if statement == "SELECT CURRENT_USER()":
            return [("o'repl@10.%",)]
        if "partial_revokes" in statement:
            return [(self.partial_revokes,)]
        if "CURRENT_ROLE" not in statement:
            self.asked = statement
            return [(line,) for line in self.grants]
        if self.roles is None:
            raise SourceError("FUNCTION CURRENT_ROLE does not exist", number=1305)
        return [(self.roles,)]


@pytest.mark.parametrize(
    "grants",
    [
        [_ALL],
        ["GRANT ALL PRIVILEGES ON *.* TO 'root'@'localhost' WITH GRANT OPTION"],
        ["GRANT USAGE ON *.*" + _TO, "GRANT `reader`@`%`" + _TO, _ALL],
        [
            _ALL,
            "REVOKE SELECT ON `mysql`.* FROM `repl`@`%`",
            "REVOKE DROP ON `shop`.* FROM `r`@`%`",
        ],
    ],
)
def test_everything_may_be_read(grants: list[str]) -> None:
    check_privileges(Source(*grants), [])


@pytest.mark.parametrize(
    ("grants", "said"),
    [
        (["GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.*" + _TO], "not read all tables:"),
        (
            ["GRANT USAGE ON *.*" + _TO, "GRANT SELECT ON `shop`.*" + _TO],
            "not read all tables:",
        ),
        (["GRANT SELECT (`a`, `b`) ON `shop`.`t`" + _TO], "not read all tables:"),
        ([_ALL, "REVOKE SELECT ON `shop`.* FROM `repl`@`%`"], "may not read all tables in shop"),
    ],
)
def test_tables_that_the_account_can_not_read_are_refused(grants: list[str], said: str) -> None:
    with pytest.raises(SourceError, match=said) as caught:
        check_privileges(Source(*grants), [])
    place = "`shop`.*" if "shop" in said else "*.*"
    assert caught.value.hint == f"GRANT SELECT ON {place} TO 'o''repl'@'10.%'"


def test_tables_copied_in_one_view_are_locked() -> None:
    with pytest.raises(SourceError, match=r"may not lock.*") as caught:
        check_privileges(Source(_ALL), ["shop.bag"])
    assert caught.value.table == "shop.bag"
    assert caught.value.hint.endswith("GRANT LOCK TABLES ON `shop`.* TO 'o''repl'@'10.%'")
    for where in ("*.*", "`shop`.*", "`sh%`.*"):
        check_privileges(Source(_ALL, f"GRANT LOCK TABLES ON {where}{_TO}"), ["shop.bag"])
    with pytest.raises(SourceError, match="may not lock"):
        check_privileges(Source(_ALL, "GRANT LOCK TABLES ON `other`.*" + _TO), ["shop.bag"])


def test_privileges_of_roles_count() -> None:
    source = Source(_ALL, roles="`reader`@`%`")
    check_privileges(source, [])
    assert source.asked == "SHOW GRANTS FOR CURRENT_USER() USING `reader`@`%`"
    source = Source(_ALL, roles=None)  # before 8.0
    check_privileges(source, [])
    assert source.asked == "SHOW GRANTS"


SHOP = "GRANT SELECT ON `shop`.*" + _TO


@pytest.mark.parametrize(
    ("filters", "grants"),
    [
        ({"do_db": ("shop",)}, [SHOP]),
        ({"do_db": ("shop",)}, ["GRANT SELECT ON `sh%`.*" + _TO]),
        ({"do_db": ("sh_p",)}, ["GRANT SELECT ON `sh\\_p`.*" + _TO]),
        ({"do_db": ("shop", "crm")}, [SHOP, "GRANT ALL PRIVILEGES ON `crm`.*" + _TO]),
        ({"do_table": ("shop.a",)}, [SHOP]),
        ({"do_table": ("shop.a",)}, ["GRANT SELECT ON `shop`.`a`" + _TO]),
        ({"wild_do_table": ("shop.%",)}, [SHOP]),
        ({"wild_do_table": ("sh%.a",), "do_db": ("shop", "crm")}, [SHOP]),
        ({"do_db": ("lake",), "rewrite_db": ("shop->lake",)},
         [SHOP, "GRANT SELECT ON `lake`.*" + _TO]),
        ({"do_db": ("shop",)}, [_ALL, "REVOKE SELECT ON `crm`.* FROM `repl`@`%`"]),
        ({"ignore_db": ("crm",)}, [_ALL, "REVOKE SELECT ON `crm`.* FROM `repl`@`%`"]),
        ({"wild_ignore_table": ("crm.%",)}, [_ALL, "REVOKE SELECT ON `crm`.* FROM `repl`@`%`"]),
    ],
)  # fmt: skip
def test_only_wanted_tables_have_to_be_read(filters: dict[str, Any], grants: list[str]) -> None:
    check_privileges(Source(*grants), [], ReplicationFilters(**filters))


@pytest.mark.parametrize(
    ("filters", "place"),
    [
        ({"do_db": ("crm",)}, "`crm`.*"),
        ({"do_db": ("c_m",)}, "`c\\_m`.*"),
        ({"do_table": ("crm.a", "shop.b")}, "`crm`.`a`"),
        ({"wild_do_table": ("c%.a",)}, "*.*"),
        ({"ignore_db": ("crm",)}, "*.*"),
        ({"do_db": ("shop",), "rewrite_db": ("crm->shop",)}, "`crm`.*"),
        ({}, "*.*"),
    ],
)
def test_wanted_tables_that_are_hidden(filters: dict[str, Any], place: str) -> None:
    with pytest.raises(SourceError, match="may not read all tables") as caught:
        check_privileges(Source(SHOP), [], ReplicationFilters(**filters))
    assert caught.value.hint == f"GRANT SELECT ON {place} TO 'o''repl'@'10.%'"


def test_a_grant_on_a_pattern_is_one_on_a_name_with_partial_revokes() -> None:
    source = Source("GRANT SELECT ON `sh%`.*" + _TO)
    filters = ReplicationFilters(do_db=("shop",))
    check_privileges(source, [], filters)
    source.partial_revokes = 1
    with pytest.raises(SourceError, match="in shop:"):
        check_privileges(source, [], filters)


def test_tables_that_filters_want_are_listed() -> None:
    found = wanted_places(ReplicationFilters(do_db=("a",), do_table=("a.x", "b.y")))
    assert found == ["a.x"]
    assert wanted_places(ReplicationFilters(do_db=("a",), wild_do_table=("b.%",))) == []
    assert wanted_places(ReplicationFilters(ignore_table=("b.y",))) is None
