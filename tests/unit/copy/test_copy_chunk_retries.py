"""What a copy, a verify or a repair does again where the source's answer is an error."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from spark_repl.config import Source
from spark_repl.copy.copy_chunk import patiently
from spark_repl.errors import SecretError, SourceError, SourceLostError, SparkReplError
from spark_repl.source.dump import error_of

SOURCE = replace(Source(), connect_retry_s=0, connect_retry_count=3)


class Answers:
    """Raises each of ``errors``, then answers."""

    def __init__(self, *errors: SparkReplError) -> None:
        self.errors = [*errors]

    def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "rows"


@pytest.mark.parametrize("number", [1045, 1226, 1862, 3118, 2013])
def test_an_account_that_logged_in_before_is_tried_again(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    answers = Answers(error_of(number, "refused"), SecretError("no file"))
    with caplog.at_level(logging.WARNING):
        assert patiently(SOURCE, answers) == "rows"
    assert caplog.text.count("tried again") >= 2


def test_a_first_connection_that_is_refused_is_an_error_at_once() -> None:
    for error in (error_of(1045, "refused"), SecretError("no file")):
        answers = Answers(error, SourceLostError("another"))
        with pytest.raises(SparkReplError) as caught:
            patiently(SOURCE, answers, reconnect=False)
        assert caught.value is error and len(answers.errors) == 1
    assert patiently(SOURCE, Answers(error_of(1226, "x")), reconnect=False) == "rows"


@pytest.mark.parametrize("error", [error_of(1045, "x"), SecretError("x"), error_of(1142, "x")])
def test_an_error_that_stays_is_raised(error: SparkReplError) -> None:
    with pytest.raises((SourceError, SecretError)) as caught:
        patiently(SOURCE, Answers(*[error] * 9))
    assert caught.value is error
