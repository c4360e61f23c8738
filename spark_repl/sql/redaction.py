"""Redaction: the text of a logged statement as messages, logs and ``status`` may show it.

Literals are shown only of statements about tables and databases. Any other statement (CREATE USER,
GRANT, SET PASSWORD, CREATE SERVER, CREATE PROCEDURE, INSERT and so on) may contain a password, its
hash or a row. Of statements about tables, literals that may be secret are removed, such as
CONNECTION of a FEDERATED table.
"""

from __future__ import annotations

import re

from ..errors import StatementError
from .sql_tokens import STRING, SYMBOL, WORD, Token, tokens

_BEFORE, _BEHIND = re.compile(r" ([.,;)])"), re.compile(r"([.(]) ")
_VERBS = ("CREATE", "ALTER", "DROP", "RENAME")
_MODIFIERS = (
    "OR", "REPLACE", "ONLINE", "OFFLINE", "IGNORE", "UNIQUE", "FULLTEXT", "SPATIAL", "TEMPORARY",
)  # fmt: skip
_TRANSACTION = ("XA", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")
_OBJECTS = ("TABLE", "TABLES", "INDEX", "DATABASE", "SCHEMA")
_SECRET_OPTIONS = ("CONNECTION", "PASSWORD", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE")
_PASSWORD_IN_URI = re.compile("://[^/@]*:[^/]*@")
_SECRET_FUNCTIONS = (
    "AES_ENCRYPT", "AES_DECRYPT", "DES_ENCRYPT", "DES_DECRYPT", "ENCRYPT", "ENCODE", "DECODE",
    "PASSWORD", "OLD_PASSWORD",
)  # fmt: skip


def redact_literals(statement: str, sql_mode: int) -> str:
    """Return the words of ``statement`` with ? for each literal and without comments. If it can't
    be tokenized, return only its first word."""
    try:
        return _joined([token.without_literal for token in tokens(statement, sql_mode)])
    except StatementError:
        return _unread(statement)


def redact_secrets(statement: str, sql_mode: int) -> str:
    """Return a statement's text without secrets. In a statement about tables or databases, replace
    only literals that may be secret by ?. In any other statement, except XA START and similar ones,
    replace all literals and names in double quotes by ?. A text without secrets is unchanged."""
    try:
        items = tokens(statement, sql_mode)
    except StatementError:
        return _unread(statement)
    if items and items[0].text in _TRANSACTION:
        return statement
    if not _is_about_tables(items):
        return _joined(["?" if token.raw[0] == '"' else token.without_literal for token in items])
    secret = _secret(items)
    if not secret:
        return statement
    return _joined(
        [token.without_literal if n in secret else token.raw for n, token in enumerate(items)]
    )


def is_about_tables(statement: str, sql_mode: int = 0) -> bool:
    """Return whether a statement creates, changes or drops tables or databases."""
    try:
        return _is_about_tables(tokens(statement, sql_mode))
    except StatementError:
        return False


def _is_about_tables(items: list[Token]) -> bool:
    words = [token.text if token.kind == WORD else "" for token in items]
    if words[:1] == ["TRUNCATE"]:
        return True
    following = [word for word in words[1:] if word not in _MODIFIERS]
    return (
        words[:1] != [] and words[0] in _VERBS and following[:1] != [] and following[0] in _OBJECTS
    )


def _secret(items: list[Token]) -> set[int]:
    """Return the positions of the literals that may be secret: of options and of functions."""
    secret, depth, expected = set[int](), 0, False
    for number, token in enumerate(items):
        if depth:
            secret.add(number)
            depth += (token.text == "(") - (token.text == ")") if token.kind == SYMBOL else 0
            continue
        if (
            token.kind == SYMBOL
            and token.text == "("
            and _follows(items, number, _SECRET_FUNCTIONS)
        ):
            depth = 1
        elif token.kind == STRING and (expected or _PASSWORD_IN_URI.search(token.text)):
            secret.add(number)
        else:
            is_option = token.kind == WORD and token.text in _SECRET_OPTIONS
            expected = is_option or (expected and token.text == "=")
    return secret


def _follows(items: list[Token], number: int, words: tuple[str, ...]) -> bool:
    before = items[number - 1] if number else None
    return before is not None and before.kind == WORD and before.text in words


def _unread(statement: str) -> str:
    return " ".join([*statement.split()[:1], "..."])


def _joined(words: list[str]) -> str:
    return _BEHIND.sub(r"\1", _BEFORE.sub(r"\1", " ".join(words)))
