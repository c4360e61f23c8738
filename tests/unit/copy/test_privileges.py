"""What SHOW GRANTS says of an account, and whether that is enough for a copy."""

from __future__ import annotations

from typing import Any

import pytest

from spark_repl.copy.privileges import check_privileges
from spark_repl.errors import SourceError

_TO = " TO `repl`@`%`"
_ALL = "GRANT SELECT, REPLICATION SLAVE ON *.*" + _TO


class Source:
    def __init__(self, *grants: str, roles: str | None = "NONE") -> None:
        self.grants, self.roles = grants, roles
        self.asked = ""

    def __call__(self, statement: str) -> list[tuple[Any, ...]]:
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
def test_what_is_hidden_is_refused(grants: list[str], said: str) -> None:
    with pytest.raises(SourceError, match=said) as caught:
        check_privileges(Source(*grants), [])
    assert "GRANT SELECT ON *.*" in str(caught.value.hint)


def test_tables_copied_in_one_view_are_locked() -> None:
    with pytest.raises(SourceError, match=r"may not lock.*") as caught:
        check_privileges(Source(_ALL), ["shop.bag"])
    assert caught.value.table == "shop.bag"
    assert "GRANT LOCK TABLES" in str(caught.value.hint)
    for where in ("*.*", "`shop`.*", "`sh%`.*"):
        check_privileges(Source(_ALL, f"GRANT LOCK TABLES ON {where}{_TO}"), ["shop.bag"])
    with pytest.raises(SourceError, match="may not lock"):
        check_privileges(Source(_ALL, "GRANT LOCK TABLES ON `other`.*" + _TO), ["shop.bag"])


def test_roles_count_where_there_are_any() -> None:
    source = Source(_ALL, roles="`reader`@`%`")
    check_privileges(source, [])
    assert source.asked == "SHOW GRANTS FOR CURRENT_USER() USING `reader`@`%`"
    source = Source(_ALL, roles=None)  # before 8.0
    check_privileges(source, [])
    assert source.asked == "SHOW GRANTS"
