"""classify never raises, and quoting hides what it holds, whatever the text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_repl.sql.classify import Effect, classify

WORDS = st.sampled_from(
    [
        "CREATE",
        "ALTER",
        "DROP",
        "TABLE",
        "INDEX",
        "UNIQUE",
        "KEY",
        "PRIMARY",
        "IF",
        "NOT",
        "EXISTS",
        "ADD",
        "COLUMN",
        "RENAME",
        "TO",
        "(",
        ")",
        ",",
        ".",
        ";",
        "=",
        "-",
        "/*",
        "*/",
        "/*!80000",
        "/*!99999",
        "--",
        "#",
        "`",
        "'",
        '"',
        "'x'",
        "`t`",
        "t",
        "INT",
        "CHAR",
        "VARCHAR",
        "ENUM",
        "SET",
        "AS",
        "SELECT",
        "LIKE",
        "ON",
        "DEFAULT",
        "NULL",
        "REFERENCES",
        "CHECK",
        "CHARACTER",
        "COMMENT",
        "1",
        "1.5",
        "0x1F",
        "DEFINER",
        "@",
        "VIEW",
        "PARTITION",
        "BY",
        "MODIFY",
        "CHANGE",
        "AFTER",
        "FIRST",
        "CONVERT",
        "CONSTRAINT",
        "FOREIGN",
        "TRUNCATE",
        "GENERATED",
        "ALWAYS",
        "STORED",
        "AUTO_INCREMENT",
        "CURRENT_TIMESTAMP",
        "VISIBLE",
        "EXCHANGE",
        "COLLATE",
        "FULLTEXT",
        "START",
        "TRANSACTION",
    ]
)


@given(st.lists(st.one_of(WORDS, st.text(max_size=3)), max_size=25).map(" ".join))
def test_classify_raises_nothing_whatever_the_text(statement: str) -> None:
    found = classify(statement, "d")
    assert (found.effect is Effect.UNSUPPORTED) <= bool(found.reason)


@given(
    st.text(), st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1)
)
def test_quoted_text_is_never_read_as_sql(comment: str, name: str) -> None:
    text = comment.replace("\\", "\\\\").replace("'", "''")
    quoted = "`" + name.replace("`", "``") + "`"
    found = classify(f"ALTER TABLE {quoted} COMMENT='{text}', ADD KEY {quoted} (a)", "d")
    assert (found.effect, found.tables) == (Effect.NO_EFFECT, (f"d.{name}",))
    statement = f"CREATE TABLE {quoted} ({quoted} INT COMMENT '{text}') COMMENT='{text}'"
    found = classify(statement, "d")
    assert found.definition is not None
    assert [column.name for column in found.definition.columns] == [name]
