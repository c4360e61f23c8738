"""``config check``, ``config show``: every fault at once, where each value is from, no secret."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main

SECRET = "planted-hunter2"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "r.toml"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, Any]:
    """(exit code, all that was printed, the last line's JSON)."""
    code = main([*words, "--json"])
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    return code, said.out + said.err, json.loads(said.out.splitlines()[-1]) if said.out else {}


def wrong(capsys: pytest.CaptureFixture[str], file: Path) -> tuple[int, list[str], list[str]]:
    code, _, found = run(capsys, "config", "check", "--config", str(file))
    errors, warnings = ([f["what"] for f in found[level]] for level in ("errors", "warnings"))
    return code, errors, warnings


def test_config_check_reports_all_faults_at_once(file: Path, capsys: Any) -> None:
    file.write_text('chanel = "x"\n[apply]\nworkers = 0\nwrtier = "x"\n')
    code, errors, _ = wrong(capsys, file)
    assert code == 2 and len(errors) == 3
    assert any("nearest is apply.writer" in error for error in errors)
    file.write_text(
        '[source]\nserver_id = 5\npassword_env = "NO_SUCH_VARIABLE"\ntls_ca = "none.pem"\n'
        '[target]\npath = "hdfs://host/x"\non_foreign_change = "copy"\n'
    )
    code, errors, _ = wrong(capsys, file)
    assert code == 2 and len(errors) == 4
    for part in ("NO_SUCH_VARIABLE", "tls_ca", "hdfs://", "target.on_foreign_change"):
        assert any(part in error for error in errors), part


@pytest.mark.parametrize("text", ["[apply\n", None])
def test_a_file_that_can_not_be_read(file: Path, capsys: Any, text: str | None) -> None:
    if text is not None:
        file.write_text(text)
    code, errors, _ = wrong(capsys, file)
    assert code == 2 and len(errors) == 1 and str(file) in errors[0]


def test_what_others_may_read_is_warned_of(file: Path, capsys: Any, tmp_path: Path) -> None:
    file.write_text(f'[source]\nserver_id = 5\npassword = "{SECRET}"\n')
    file.chmod(0o644)
    code, errors, warnings = wrong(capsys, file)
    assert (code, errors) == (0, []) and "a password in it" in warnings[0]
    file.chmod(0o600)
    assert wrong(capsys, file) == (0, [], [])
    held = tmp_path / "password"
    held.write_text(SECRET)
    held.chmod(0o640)
    file.write_text(f'[source]\nserver_id = 5\npassword_file = "{held}"\n')
    assert "the password can be read" in wrong(capsys, file)[2][0]


def test_config_check_warns_of_unwise_settings(file: Path, capsys: Any) -> None:
    file.write_text('[source]\nhost = "db.example.com"\ntls = "preferred"\n')
    code, errors, warnings = wrong(capsys, file)
    assert (code, errors) == (0, [])
    assert ["server_id" in w for w in warnings] == [True, False] and "clear" in warnings[1]
    file.write_text('[source]\nhost = "db.example.com"\nserver_id = 7\n')
    assert wrong(capsys, file) == (0, [], [])


def test_a_target_that_cannot_be_written(file: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "taken").touch()
    file.write_text(f'[source]\nserver_id = 5\n[target]\npath = "{tmp_path}/taken/lake"\n')
    code, (error,), _ = wrong(capsys, file)
    assert code == 2 and f"{tmp_path}/taken is no folder" in error
    file.write_text(f'[source]\nserver_id = 5\n[target]\npath = "{tmp_path}/new/lake"\n')
    before = sorted(tmp_path.iterdir())
    assert wrong(capsys, file) == (0, [], [])
    assert sorted(tmp_path.iterdir()) == before
    for key in ("path", "state_path"):
        file.write_text(f'[source]\nserver_id = 5\n[target]\n{key} = "/proc/lake"\n')
        code, (error,), _ = wrong(capsys, file)
        assert code == 2 and "/proc can't be written by this account" in error


MAPPED = "column_mapping = true\n"
PARTED = 'partition_by = ["shop.orders(day)"]\n'
SHARDED = '[[tables]]\nmatch = "shop\\\\_%.orders"\nto = "all.orders"\nkey_prefix = "shop"\n'


@pytest.mark.parametrize(
    ("target", "warned"),
    [
        (PARTED, "shop.orders"),
        (MAPPED + PARTED, "shop.orders"),
        (SHARDED, "shop"),
        ("column_mapping = false\n" + PARTED, ""),
        (MAPPED, ""),
    ],
)
def test_partitions_that_duckdb_gives_null_for(
    file: Path, tmp_path: Path, capsys: Any, target: str, warned: str
) -> None:
    file.write_text(f'[source]\nserver_id = 5\n[target]\npath = "{tmp_path}/lake"\n{target}')
    code, errors, warnings = wrong(capsys, file)
    assert (code, errors) == (0, [])
    assert len(warnings) == bool(warned)
    assert all("DuckDB" in one and warned in one for one in warnings)


@pytest.mark.parametrize(
    ("folder", "engines"),
    [("a b", "Polars"), ("ä", "DuckDB"), ("a'+&", "")],
)
def test_folders_that_other_engines_do_not_open(
    file: Path, tmp_path: Path, capsys: Any, folder: str, engines: str
) -> None:
    file.write_text(f'[source]\nserver_id = 5\n[target]\npath = "{tmp_path}/{folder}"\n', "utf-8")
    code, errors, warnings = wrong(capsys, file)
    assert (code, errors) == (0, [])
    assert len(warnings) == bool(engines) and all(engines in one for one in warnings)


def test_config_check_names_an_unreachable_source(file: Path, capsys: Any) -> None:
    file.write_text('[source]\nsocket = "none.sock"\nserver_id = 5\n')
    code, said, found = run(capsys, "config", "check", "--config", str(file), "--source")
    assert code == 1 and f"can't connect to {file.parent}/none.sock" in found["errors"][0]["what"]
    assert f"Error: can't connect to {file.parent}/none.sock" in said and "Try: " in said


def test_each_value_and_where_it_is_from(file: Path, capsys: Any, monkeypatch: Any) -> None:
    # Scenario 170: what the applier is set to.
    file.write_text(
        'channel = "eu"\n[source]\nhost = "db.example.com"\npassword_env = "PLANTED"\n'
        '[apply]\nworkers = 3\nwriter = "direct"\n'
    )
    words = ("config", "show", "--config", str(file), "--workers", "8")
    _, _, found = run(capsys, *words)
    keys = found["keys"]
    assert keys["source.password"]["from"] == "environment PLANTED, which is not set"
    monkeypatch.setenv("PLANTED", SECRET)
    _, _, found = run(capsys, *words)
    keys = found["keys"]
    assert keys["channel"] == {"value": "eu", "from": "file"}
    assert keys["apply.workers"] == {"value": 8, "from": "flag --workers"}
    assert keys["apply.writer"] == {"value": "direct", "from": "file"}
    assert keys["relay.path"] == {"value": str(file.parent / "relay"), "from": "default"}
    assert keys["source.password"] == {"value": "***", "from": "environment PLANTED"}
    assert keys["source.tls"]["value"] == "required"
    assert main([*words]) == 0
    assert 'channel = "eu"  ' in capsys.readouterr().out


@pytest.mark.parametrize("way", ["password", "password_command"])
def test_config_show_prints_no_secret(file: Path, capsys: Any, way: str) -> None:
    file.write_text(f'[source]\n{way} = "{SECRET}"\n')
    _, _, found = run(capsys, "config", "show", "--config", str(file))
    assert found["keys"][f"source.{way}"]["value"] == "***"
    assert main(["config", "show", "--config", str(file)]) == 0
    assert SECRET not in capsys.readouterr().out


def test_show_refuses_a_wrong_file(file: Path, capsys: Any) -> None:
    file.write_text("[apply]\nworkers = 0\n")
    assert main(["config", "show", "--config", str(file)]) == 2
    assert str(file) in (said := capsys.readouterr().err)
    assert said.endswith("See: docs/troubleshooting.md#configerror\n")


@pytest.mark.parametrize(
    ("table", "applied", "rule", "policy"),
    [
        ("shop.orders", True, "wild_do_table has shop.%", "additive_only"),
        ("shop.log", False, "ignore_table has shop.log", "additive_only"),
        ("hr.pay", False, "no do_table and no wild_do_table names it", "apply"),
    ],
)
def test_a_rule_is_explained(
    file: Path, capsys: Any, table: str, applied: bool, rule: str, policy: str
) -> None:
    file.write_text(
        '[filters]\nignore_table = ["shop.log"]\nwild_do_table = ["shop.%"]\n'
        '[ddl]\npolicy = ["shop.*: additive_only"]\n'
    )
    code, _, found = run(capsys, "config", "explain", table, "--config", str(file))
    assert code == 0
    none = "no rule of [[tables]] fits it"
    listed = "ddl.policy has shop.*" if policy != "apply" else "no entry of ddl.policy fits it"
    want = {"table": table, "applied": applied, "rule": rule, "policy": policy, "tables": none}
    want |= {"policy_from": listed, "on_error": "stop", "on_error_from": "apply.on_error"}
    assert found == want


def test_rules_are_asked_about_what_was_rewritten(file: Path, capsys: Any) -> None:
    file.write_text('[filters]\ndo_db = ["b"]\nrewrite_db = ["a->b"]\n')
    _, _, found = run(capsys, "config", "explain", "a.t", "--config", str(file))
    assert (found["table"], found["rewritten"], found["rule"]) == ("a.t", "b.t", "do_db has b")


def test_the_rule_of_a_tool_s_table_is_explained(file: Path, capsys: Any) -> None:
    file.write_text(
        '[[tables]]\nmatch = "t.a"\nmask = { mail = "null" }\non_ddl = "stop"\n'
        '[[tables]]\nmatch = "t.%"\non_ddl = "ignore_drop"\n'
    )
    _, _, found = run(capsys, "config", "explain", "t._a_gho", "--config", str(file))
    assert (found["tables"], found["columns_and_rows_by"]) == ("t.%", "t.a")
    assert (found["policy"], found["mask"]) == ("ignore_drop", [["mail", "null"]])
    _, _, found = run(capsys, "config", "explain", "t.a", "--config", str(file))
    assert found["tables"] == "t.a" and "columns_and_rows_by" not in found


def test_masks_are_shown_as_the_file_has_them(file: Path, capsys: Any) -> None:
    file.write_text('[[tables]]\nmatch = "t.a"\nmask = { mail = "null", "a b" = "truncate:3" }\n')
    assert main(["config", "show", "--config", str(file)]) == 0
    [line] = [one for one in capsys.readouterr().out.splitlines() if ".mask = " in one]
    shown = line.partition(".mask = ")[2].partition("#")[0]
    masks = tomllib.loads(f"mask = {shown}")["mask"]
    assert masks == {"mail": "null", "a b": "truncate:3"}


def test_a_masked_key_is_explained(file: Path, capsys: Any) -> None:
    file.write_text(
        '[target]\nmask_key_env = "MASK_KEY"\n[[tables]]\nmatch = "t.a"\n'
        'mask = { mail = "sha256" }\nmask_keys = true\n[[tables]]\nmatch = "t.%"\n'
    )
    for table in ("t.a", "t._a_gho"):
        _, _, found = run(capsys, "config", "explain", table, "--config", str(file))
        assert (found["mask"], found["mask_keys"]) == ([["mail", "sha256"]], True)
    _, _, found = run(capsys, "config", "explain", "t.b", "--config", str(file))
    assert "mask_keys" not in found


def test_names_by_to_are_explained(file: Path, capsys: Any) -> None:
    file.write_text(
        '[filters]\nrewrite_db = ["t->shop"]\nignore_table = ["shop.log"]\n[ddl]\npolicy ='
        ' ["lake.*: stop"]\n[[tables]]\nmatch = "shop.orders"\nto = "lake.o"\n[[tables]]\n'
        'match = "shop.%"\nto = "lake.%"\nmask = { mail = "null" }\n'
    )

    def explained(name: str) -> dict[str, Any]:
        found = run(capsys, "config", "explain", name, "--config", str(file))[2]
        return {key: found.get(key) for key in ("rewritten", "target", "tables", "to", "policy")}

    orders = {"rewritten": "shop.orders", "target": "lake.o", "tables": "shop.orders"}
    assert explained("t.orders") == {**orders, "to": "lake.o", "policy": "stop"}
    other = {"rewritten": None, "target": "lake.x", "tables": "shop.%"}
    assert explained("shop.x") == {**other, "to": "lake.%", "policy": "stop"}
    _, _, found = run(capsys, "config", "explain", "shop.log", "--config", str(file))
    assert (found["applied"], found["rule"]) == (False, "ignore_table has shop.log")
    _, _, found = run(capsys, "config", "explain", "lake.x", "--config", str(file))
    assert "tables shop.x and lake.x would share lake.x" in found["refused"]
    assert found["tables"] == "no rule of [[tables]] fits it" and "target" not in found


def test_what_tables_says_is_explained_and_shown(file: Path, capsys: Any) -> None:
    file.write_text(
        '[[tables]]\nmatch = "shop.log\\\\_%"\non_ddl = "stop"\n[[tables]]\nmatch = "shop.%"\n'
        'mask = { mail = "null" }\n'
    )
    _, _, found = run(capsys, "config", "explain", "shop.log_1", "--config", str(file))
    assert (found["tables"], found["policy"], found["on_ddl"]) == (r"shop.log\_%", "stop", "stop")
    _, _, found = run(capsys, "config", "explain", "shop.logs", "--config", str(file))
    assert (found["tables"], found["policy"]) == ("shop.%", "apply")
    assert found["mask"] == [["mail", "null"]]
    _, _, found = run(capsys, "config", "show", "--config", str(file))
    keys = found["keys"]
    assert keys["tables[1].on_ddl"] == {"value": "stop", "from": "file"}
    assert keys["tables[2].mode"] == {"value": "mirror", "from": "default"}


@pytest.mark.parametrize(
    ("table", "error", "came_from"),
    [
        ("shop.log", "quarantine", "tables[1].on_error"),
        ("shop.orders", "stop", "apply.on_error"),
        ("hr.pay", "stop", "tables[3].on_error"),
        ("hr.log", "stop", "apply.on_error"),
    ],
)
def test_config_explain_names_policy_and_error_mode(
    file: Path, capsys: Any, table: str, error: str, came_from: str
) -> None:
    file.write_text(
        '[ddl]\npolicy = "stop"\n[[tables]]\nmatch = "shop.log"\non_error = "quarantine"\n'
        '[[tables]]\nmatch = "shop.%"\non_ddl = "apply"\n[[tables]]\nmatch = "hr.p%"\n'
        'on_error = "stop"\n'
    )
    _, _, found = run(capsys, "config", "explain", table, "--config", str(file))
    assert (found["on_error"], found["on_error_from"]) == (error, came_from)
    of_policy = ("apply", "tables[2].on_ddl") if table == "shop.orders" else ("stop", "ddl.policy")
    assert (found["policy"], found["policy_from"]) == of_policy


def test_a_row_filter_is_explained_and_checked(file: Path, capsys: Any) -> None:
    text = '[source]\nserver_id = 5\n[[tables]]\nmatch = "shop.%"\nrow_filter = "{}"\n'
    file.write_text(text.format("Total > 2 AND left(`region`, 2) = 'eu'"))
    _, _, found = run(capsys, "config", "explain", "shop.orders", "--config", str(file))
    assert found["row_filter"] == "Total > 2 AND left(`region`, 2) = 'eu'"
    assert found["row_filter_columns"] == ["Total", "region"]
    assert wrong(capsys, file)[:2] == (0, [])
    file.write_text(text.format("total > UUID()"))
    code, errors, _ = wrong(capsys, file)
    assert code == 2 and len(errors) == 1
    assert "tables[1].row_filter total > UUID(): UUID() is not deterministic" in errors[0]


def test_config_check_reports_all_faults_of_rules(file: Path, capsys: Any) -> None:
    """Each with the nearest name; expressions too, whatever else is wrong."""
    file.write_text(
        '[[tables]]\nmatch = "shop.a"\nmode = "miror"\non_ddl = "Stop"\non_error = "quarantin"\n'
        'row_filter = "a >"\n[[tables]]\nmatch = "shop.b"\nrow_filtre = "b > 1"\n'
    )
    code, errors, _ = wrong(capsys, file)
    assert code == 2 and len(errors) == 5
    near = ("mirror", "stop", "quarantine", "tables[2].row_filter")
    for error, word in zip(errors, near, strict=False):
        assert error.endswith(f"; the nearest is {word}")
    assert "tables[1].row_filter a >: it is not understood" in errors[4]


@pytest.mark.parametrize("more", ['row_filtre = "b"\n', 'key_prefix = "x y"\n'])
def test_a_start_says_them_all_at_once(file: Path, tmp_path: Path, capsys: Any, more: str) -> None:
    """Of whatever kind: keys, what this version does not do, expressions."""
    folders = [f'[{key}]\npath = "{tmp_path / key}"\n' for key in ("relay", "target")]
    file.write_text("".join(folders) + f'[[tables]]\nmatch = "a.b"\nrow_filter = "a >"\n{more}')
    said = ("tables[1].row_filter a >", f"tables[1].{more.split()[0]}")
    for command in ("apply", "run"):
        assert main([command, "--config", str(file)]) == 2
        printed = capsys.readouterr().err
        assert all(one in printed for one in said) and "2 faults" in printed
    assert not (tmp_path / "target").exists()


def test_a_shard_is_explained(file: Path, capsys: Any) -> None:
    rule = {"match": r"shop\\_%.orders", "to": "lake.orders", "key_prefix": "shop"}
    said = "\n".join(f'{key} = "{value}"' for key, value in rule.items())
    file.write_text(f"[[tables]]\n{said}\n")
    _, _, found = run(capsys, "config", "explain", "shop_1.orders", "--config", str(file))
    assert found["target"] == "lake.orders//1" and found["key_prefix"] == "shop"
    _, _, found = run(capsys, "config", "explain", "lake.orders", "--config", str(file))
    assert "many tables of the source are in one" in found["refused"]
    assert found["shards"] == r"of shop\_%.orders, tables[1]"


def test_a_shard_is_explained_by_its_name_in_the_target(file: Path, capsys: Any) -> None:
    """As status, metrics and errors have it: as the source's table, whose it is."""
    rule = {"match": r"shop\\_%.orders", "to": "lake.orders", "key_prefix": "shop"}
    said = "\n".join(f'{key} = "{value}"' for key, value in rule.items())
    file.write_text(f'[filters]\nignore_db = ["shop_3"]\n[[tables]]\n{said}\n')
    for name in ("lake.orders//1", "shop_1.orders"):
        _, _, found = run(capsys, "config", "explain", name, "--config", str(file))
        assert (found["table"], found["target"]) == ("shop_1.orders", "lake.orders//1")
        assert found["shown_in"] == "lake.orders, its rows have shop = '1'"
        assert found["applied"] and "refused" not in found
    _, _, found = run(capsys, "config", "explain", "lake.orders//3", "--config", str(file))
    assert (found["table"], found["applied"]) == ("shop_3.orders", False)
    assert found["rule"] == "ignore_db has shop_3"


def test_a_shard_s_name_where_databases_are_rewritten(file: Path, capsys: Any) -> None:
    rule = {"match": r"shop\\_%.orders", "to": "lake.orders", "key_prefix": "shop"}
    said = "\n".join(f'{key} = "{value}"' for key, value in rule.items())
    file.write_text(f'[filters]\nrewrite_db = ["eu->shop_1", "us->shop_1"]\n[[tables]]\n{said}\n')
    _, _, found = run(capsys, "config", "explain", "eu.orders", "--config", str(file))
    assert (found["target"], found["rewritten"]) == ("lake.orders//1", "shop_1.orders")
    assert main(["config", "explain", "lake.orders//1", "--config", str(file)]) == 2
    assert "eu.orders or shop_1.orders or us.orders" in capsys.readouterr().err
    _, _, found = run(capsys, "config", "explain", "lake.orders//2", "--config", str(file))
    assert found["table"] == "shop_2.orders"


def test_what_is_not_done_yet_is_not_explained(file: Path, capsys: Any) -> None:
    file.write_text('[target]\non_foreign_change = "copy"\n')
    assert main(["config", "explain", "shop.b", "--config", str(file)]) == 2
    assert 'target.on_foreign_change = "copy" is not supported' in capsys.readouterr().err


def test_what_is_no_table_is_not_explained(file: Path, capsys: Any) -> None:
    file.write_text("")
    assert main(["config", "explain", "orders", "--config", str(file)]) == 2
    assert "give DATABASE.TABLE" in capsys.readouterr().err


def test_names_in_any_case_of_a_source_that_folds_them(file: Path, capsys: Any) -> None:
    file.write_text('[source]\nlower_case_table_names = 1\n[filters]\ndo_db = ["Shop"]\n')
    _, _, found = run(capsys, "config", "explain", "SHOP.Orders", "--config", str(file))
    assert found["table"] == "shop.orders" and found["applied"]


def test_config_check_compares_channels_side_by_side(tmp_path: Path, capsys: Any) -> None:
    """Each fault that two files have together is printed after their names. Differences that are
    allowed are no faults."""
    files = [tmp_path / "eu.toml", tmp_path / "us.toml"]
    words = [word for file in files for word in ("--config", str(file))]

    def faults_of(*texts: str) -> tuple[int, list[str]]:
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        code, _, said = run(capsys, "config", "check", *words)
        return code, [one["what"] for one in said["errors"]]

    one = (
        '[source]\nserver_id = 5\n[relay]\npath = "a"\n[target]\npath = "lake"\nstate_path = "s"\n'
    )
    code, errors = faults_of(one, one.replace("lake", "other/../lake") + "[apply]\nworkers = 0\n")
    assert code == 2 and len(errors) == 1 and errors[0].startswith(f"{files[1]}: ")
    listen = '[observe]\nlisten = "127.0.0.1:9104"\n'
    code, errors = faults_of(one + listen, one.replace("lake", "other/../lake") + listen)
    assert code == 2 and all(e.startswith(f"{files[0]} and {files[1]}: ") for e in errors)
    for part in ("relay.path", "channel and target.path", "observe.listen", "source.server_id"):
        assert sum(part in error for error in errors) == 1, part
    assert len(errors) == 4
    code, errors = faults_of(
        one, one.replace("lake", "sea").replace('"a"', '"b"').replace("5", "6")
    )
    assert code == 2 and len(errors) == 1 and "target.state_path" in errors[0]
    other = 'channel = "us"\n' + one.replace('"a"', '"b"').replace("5", "6")
    assert faults_of(one, other) == (0, [])


def test_a_catalog_that_only_spark_configures_is_warned_of(file: Path, capsys: Any) -> None:
    file.write_text('[source]\nserver_id = 5\n[catalog]\nname = "spark_catalog"\n')
    code, errors, (warning,) = wrong(capsys, file)
    assert (code, errors) == (0, []) and "without catalog.metastore" in warning
    file.write_text('[source]\nserver_id = 5\n[catalog]\nmetastore = "thrift://m:9083"\n')
    assert "no effect without catalog.name" in wrong(capsys, file)[2][0]
    file.write_text('[source]\nserver_id = 5\n[catalog]\nname = "unity"\n')
    assert "is not supported by this version" in wrong(capsys, file)[1][0]
