"""Configuration: defaults, rules, all faults at once, the nearest key, and what is not done yet."""

from __future__ import annotations

import dataclasses
import tomllib
import traceback
from pathlib import Path
from typing import Any

import pytest

from spark_repl.config import Config, load, read_values
from spark_repl.errors import ConfigError

EXAMPLE = Path(__file__).parents[3] / "conf" / "replica.toml"


def fault_of(values: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        Config.from_mapping(values)
    return str(caught.value)


def test_example_shows_every_key_with_its_default() -> None:
    assert Config.from_mapping(read_values(EXAMPLE)) == Config()
    shown = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))
    assert {k: list(v) if isinstance(v, dict) else v for k, v in shown.items()} == {
        k: list(v) if isinstance(v, dict) else v
        for k, v in Config().to_mapping().items()
        if k != "tables"
    }


def test_example_is_supported_by_this_version() -> None:
    load(EXAMPLE).check_supported()


def test_empty_mapping_gives_the_defaults_and_they_are_frozen() -> None:
    config = Config.from_mapping({})
    assert config == Config()
    assert (config.apply.writer, config.apply.workers, config.channel) == ("direct", 2, "default")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.apply.workers = 3  # type: ignore[misc]


def test_a_configuration_round_trips_through_its_mapping() -> None:
    values = {"channel": "eu", "apply": {"workers": 8, "writer": "direct"}}
    config = Config.from_mapping(values)
    assert Config.from_mapping(config.to_mapping()) == config
    assert config.apply.workers == 8


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"apply": {"worker": 4}}, "unknown key apply.worker; the nearest is apply.workers"),
        ({"target": {"workers": 4}}, "unknown key target.workers; the nearest is apply.workers"),
        ({"chanel": "x"}, "unknown key chanel; the nearest is channel"),
        ({"ddl": {"policies": []}}, "the nearest is ddl.policy"),
        ({"workers": 4}, "unknown key workers; the nearest is apply.workers"),
        ({"aply": {"workers": 4}}, "unknown key aply; the nearest is apply"),
        ({"relay": {"zzz": 1}}, "unknown key relay.zzz; the nearest is relay."),
        ({"table": []}, "unknown key table; the nearest is tables"),
        (
            {"tables": [{"match": "a.b", "masc": {}}]},
            "tables[1].masc; the nearest is tables[1].mask",
        ),
    ],
)
def test_unknown_key_names_the_nearest(values: dict[str, Any], names: str) -> None:
    assert names in fault_of(values)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"apply": {"workers": 0}}, "apply.workers must be between 1 and"),
        ({"apply": {"workers": True}}, "apply.workers must be an integer"),
        ({"apply": {"workers": 2.0}}, "apply.workers must be an integer"),
        ({"apply": {"writer": "fast"}}, "apply.writer must be direct"),
        ({"apply": {"writer": []}}, "apply.writer must be direct"),
        ({"apply": 3}, "apply must be a table"),
        ({"channel": "a/b"}, "channel must be 1 to 64"),
        ({"channel": ""}, "channel must be 1 to 64"),
        ({"channel": "_b"}, "begin with none of these"),
        ({"channel": ".."}, "begin with none of these"),
        ({"channel": "a\n"}, "channel must be 1 to 64"),
        ({"target": {"path": ""}}, "target.path must be a string that is not empty"),
        ({"target": {"column_mapping": 1}}, "target.column_mapping must be true or false"),
        ({"source": {"hosts": ["db1"]}}, "source.hosts must be a list"),
        ({"source": {"hosts": ["db1:70000"]}}, "source.hosts must be a list"),
        ({"source": {"hosts": "db1:3306"}}, "source.hosts must be a list"),
        (
            {"apply": {"writer": "merge"}},
            'apply.writer is "merge", which is no longer there',
        ),
        (
            {"ddl": {"policy": ["t.*: aply"]}},
            'ddl.policy must be a policy, or a list of "db.table: policy", with one of apply,'
            " additive_only, stop, ignore_drop, but holds 't.*: aply'",
        ),
        ({"ddl": {"policy": ["t: stop"]}}, "but holds 't: stop'"),
        (
            {"ddl": {"policy": "t.*: stop"}},
            "ddl.policy must be one of apply, additive_only, stop, ignore_drop, not 't.*: stop'",
        ),
        (
            {"source": {"tls": "required", "tls_ca": "ca.pem"}},
            'source.tls = "required" checks no certificate',
        ),
        ({"source": {"password": "a", "password_env": "B"}}, "only one of source.password"),
        ({"apply": {"task_log_bytes": -1}}, "apply.task_log_bytes must be"),
        ({"apply": {"task_log_bytes": 67108865}}, "apply.task_log_bytes must be"),
        ({"apply": {"executor_cache_bytes": -1}}, "apply.executor_cache_bytes must be"),
    ],
)
def test_each_broken_rule_is_reported(values: dict[str, Any], says: str) -> None:
    assert says in fault_of(values)


def test_good_hosts_become_a_tuple() -> None:
    hosts = ["db1:3306", "[::1]:3307"]
    assert Config.from_mapping({"source": {"hosts": hosts}}).source.hosts == tuple(hosts)


def test_all_faults_are_reported_together() -> None:
    said = fault_of({"apply": {"workers": 0, "wrtier": "x"}, "relay": {"path": 1}, "chanel": "c"})
    for part in ("4 faults", "apply.workers", "apply.writer", "relay.path", "nearest is channel"):
        assert part in said


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"target": {"on_foreign_change": "copy"}}, ["target.on_foreign_change"]),
    ],
)
def test_unsupported_settings_are_named(values: dict[str, Any], named: list[str]) -> None:
    config = Config.from_mapping(values)
    with pytest.raises(ConfigError) as caught:
        config.check_supported()
    assert all(part in str(caught.value) for part in named)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({}, "tables[1] has no match"),
        ({"match": "shop"}, 'tables[1].match must be "db.table"'),
        ({"mask": {"a": "sha-256"}}, "a has 'sha-256'; the nearest is sha256"),
        ({"mask": {"a": "truncate:x"}}, "a has 'truncate:x'; the nearest is truncate:N"),
        ({"mask": "null"}, "tables[1].mask must be a table"),
        ({"mask": {"a": "null", "A": "null"}}, "names a twice"),
        ({"include": ["a"], "exclude": ["b"]}, "exclude is never asked where include is given"),
        ({"exclude": ["A"], "mask": {"a": "null"}}, "never asked about a: exclude has it"),
        ({"include": ["b"], "mask": {"a": "null"}}, "never asked about a: include lacks it"),
        ({"mask": {"a": "null"}, "mask_keys": True}, "mask_keys is never asked where no mask is"),
        ({"include": ["b", "B"]}, "names b twice"),
        ({"exclude": "b"}, "tables[1].exclude must be a list of columns' names"),
        ({"extra_columns": ["gtids"]}, "the nearest is gtid"),
        ({"on_ddl": "ignore"}, "tables[1].on_ddl must be one of"),
        ({"to": "x"}, "tables[1].to must be"),
        ({"copy": "no"}, "tables[1].copy must be one of"),
        (
            {"copy": "none", "mode": "history"},
            'tables[1].copy = "none" does not go together with mode = "history"',
        ),
        (
            {"match": "s%.a", "to": "all.a", "key_prefix": "s", "copy": "none"},
            'tables[1].copy = "none" does not go together with key_prefix',
        ),
    ],
)
def test_what_a_rule_of_tables_may_be(rule: dict[str, Any], says: str) -> None:
    assert says in fault_of({"tables": [{"match": "shop.%", **rule} if rule else {}]})


@pytest.mark.parametrize("way", ["on_ddl", "policy"])
def test_rules_that_do_not_go_together_with_additive_only(way: str) -> None:
    keys: list[dict[str, Any]] = [
        {}, {"mode": "append"}, {"extra_columns": ["gtid"]}, {"row_filter": "a > 1"},
        {"exclude": ["a"]}, {"include": ["a"], "mask": {"a": "null"}},
    ]  # fmt: skip
    own = {"on_ddl": "additive_only"} if way == "on_ddl" else {}
    rules = [{"match": f"shop.t{number}", **own, **key} for number, key in enumerate(keys)]
    policy = "apply" if way == "on_ddl" else "additive_only"
    said = fault_of({"tables": rules, "ddl": {"policy": policy}})
    assert "tables[1]" not in said and said.count("together with policy additive_only") == 5
    assert 'tables[2] has mode = "append", which does not go together' in said
    assert all(f"tables[{number}]" in said for number in range(3, 7))
    otherwise = [{**rule, "on_ddl": "stop"} for rule in rules]
    Config.from_mapping({"tables": otherwise, "ddl": {"policy": policy}})


@pytest.mark.parametrize(
    ("everywhere", "own", "extra", "withheld"),
    [
        ("stop", ["", "stop"], [], []),
        ("quarantine", ["stop", "stop"], [], ["apply"]),
        ("quarantine", ["", "stop"], ["apply"], ["apply"]),
        ("stop", ["", "quarantine"], [], ["tables[2]"]),
        ("stop", ["quarantine", "stop"], ["tables[1]"], ["tables[1]"]),
        ("quarantine", ["quarantine", ""], ["tables[1]"], ["apply"]),
    ],
)
def test_what_does_not_go_together_with_quarantine(
    everywhere: str, own: list[str], extra: list[str], withheld: list[str]
) -> None:
    """Extra columns where the table itself would go there; what is withheld where any may."""
    first, other = ({"on_error": error} for error in own)
    rules = [
        {"match": "t.a", "extra_columns": ["gtid"], **first}, {"match": "t.b", **other},
        {"match": "t.c", "row_filter": "a > 1", "on_error": "stop"},
    ]  # fmt: skip
    values = {"tables": rules, "apply": {"on_error": everywhere}}
    if not extra and not withheld:
        Config.from_mapping(values)
        return
    said = fault_of(values)
    assert ("tables[1].extra_columns:" in said) == bool(extra)
    wanted = [f"tables[1].extra_columns: {key}.on_error" for key in extra]
    wanted += [f"tables[3] withholds rows: {key}.on_error" for key in withheld]
    assert all(part in said for part in wanted)


@pytest.mark.parametrize("mode", ["mirror", "append", "changelog"])
@pytest.mark.parametrize("copy", ["rows", "none"])
def test_what_a_copy_reads_of_a_table(copy: str, mode: str) -> None:
    rule = Config.from_mapping({"tables": [{"match": "t.a", "mode": mode, "copy": copy}]}).tables[0]
    assert rule.copy == copy and not rule.withheld
    assert (
        rule.reshaping
        == Config.from_mapping({"tables": [{"match": "t.a", "mode": mode}]}).tables[0].reshaping
    )


def test_a_rule_that_is_never_asked() -> None:
    given = ["shop.a%", "shop.ab", r"shop.a\_%", "shop.b", "%._", "shop.%", "x.y", "%.%", "a.b"]
    said = fault_of({"tables": [{"match": match} for match in given]})
    assert [n for n in range(1, 10) if f"tables[{n}] is never" in said] == [2, 3, 7, 9]
    assert "shop.a% before it fits all that shop.ab fits" in said


def test_rules_of_tables_go_round() -> None:
    given = {"match": "a.b", "mask": {"x": "constant:"}, "include": ["x", "y"]}
    config = Config.from_mapping({"tables": [given]})
    assert config.tables[0].mask == (("x", "constant:"),)
    assert config.override({"apply.workers": 3}).tables == config.tables


def test_password_is_never_shown() -> None:
    config = Config.from_mapping({"source": {"password": "hunter2"}})
    assert "hunter2" not in repr(config)
    with pytest.raises(ConfigError) as caught:
        config.override({"source.password_env": "X"})
    assert "hunter2" not in str(caught.value)
    assert "source.password" in str(caught.value)


_SECRET = "19841984"


@pytest.mark.parametrize(
    "values",
    [
        {"source": {"password": int(_SECRET)}},
        {"source": {"password": [_SECRET]}},
        {"source": {"password_env": int(_SECRET)}},
        {"source": {"password_env": f"$(echo {_SECRET})"}},
        {"source": {"password_file": int(_SECRET)}},
        {"source": {"password_command": ["vault", _SECRET]}},
        {"source": {"pasword": _SECRET}},
        {"source": {"host": f"repl:{_SECRET}@db1"}},
        {"source": {"hosts": [f"repl:{_SECRET}@db1:3306"]}},
        {"source": {"hosts": f"repl:{_SECRET}@db1:3306"}},
        {"source": f"repl:{_SECRET}@db1"},
        {"password": int(_SECRET)},
    ],
)
def test_no_fault_shows_a_secret(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_mapping(values)
    assert _SECRET not in "".join(traceback.format_exception(caught.value))
    assert next(iter(values)) in str(caught.value)


def test_a_command_is_never_shown() -> None:
    assert _SECRET not in repr(Config.from_mapping({"source": {"password_command": _SECRET}}))


def test_override_is_checked_too() -> None:
    config = Config().override({"apply.workers": 4, "channel": "x"})
    assert (config.apply.workers, config.channel) == (4, "x")
    with pytest.raises(ConfigError, match=r"apply\.workers"):
        Config().override({"apply.workers": 0})


def test_load_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "r.toml"
    for text, says in (("[apply\n", "is not TOML"), ("[apply]\nworkers = 0\n", "apply.workers")):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=says) as caught:
            load(file)
        assert caught.value.file == str(file)
    file.write_bytes(b'channel = "\xff"\n')
    with pytest.raises(ConfigError, match="is not TOML"):
        load(file)
    with pytest.raises(ConfigError, match="can't read"):
        load(tmp_path / "missing.toml")


def test_a_file_that_is_missing_names_the_command_that_writes_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "my.toml")
    assert caught.value.hint == f"spark-repl init --config {tmp_path}/my.toml writes one"


def test_a_configuration_has_its_files_path_which_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("")
    config = load(tmp_path / "my.toml").override({"channel": "eu"})
    assert config.file == str(tmp_path / "my.toml") and "file" not in config.to_mapping()
    assert Config().file == "" and "unknown key file" in fault_of({"file": "x"})
