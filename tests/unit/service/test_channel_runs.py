"""Several channels in one process: each ends, fails and is begun again without the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.errors import (
    ConfigError,
    JvmEndedError,
    SourceError,
    SparkReplError,
    TakenFirstError,
)
from spark_repl.observe.reports.applier_status import Counters, Result
from spark_repl.position import RelayPosition
from spark_repl.runtime.threads import channel_here
from spark_repl.service.channel_run import ChannelRun
from spark_repl.service.channel_runs import ChannelRuns

_MOST_S = 60.0
RESULT = Result(Counters(), 1.0, "", RelayPosition(1, 4), "000001:4", None)


class Runs:
    """Runs that end as the test says; ``ways``: channel -> what each of its runs does, the last one
    for ever: an error is raised, a result returned, None waits until it is stopped."""

    def __init__(self, ways: dict[str, list[Any]], again_s: float) -> None:
        self.ways, self.errors = ways, list[SparkReplError]()
        self.begun: list[tuple[str, bool]] = []
        self.reloads: list[str] = []
        self.renamed: dict[str, str] = {}
        self.keys: dict[str, str] = {}
        self.fakes: dict[str, _Fake] = {}
        self.running: set[str] = set()
        configs = {f"{name}.toml": self.read(f"{name}.toml") for name in ways}
        self.channels = ChannelRuns(configs, self.read, self.begin, self.errors.append, again_s)
        self.thread = threading.Thread(target=self._run)
        self.ended: Any = None

    def _run(self) -> None:
        try:
            self.ended = self.channels.run()
        except SparkReplError as error:
            self.ended = error

    def read(self, file: str) -> Config:
        name = self.renamed.get(file, file.removesuffix(".toml"))
        given = {"channel": name, "relay.path": name, "source.host": name}
        return Config().override(given | (self.keys if file == "eu.toml" else {}))

    def begin(self, config: Config, file: str, take_over: bool) -> ChannelRun:
        assert file == f"{config.channel}.toml"
        self.begun.append((config.channel, take_over))
        self.fakes[config.channel] = made = _Fake(self, config)
        return made

    def until(self, what: Callable[[], bool]) -> None:
        end = threading.Event()
        for _ in range(int(_MOST_S / 0.02)):
            if what():
                return
            end.wait(0.02)
        raise AssertionError(self.begun)


class Late(SourceError):
    """Comes when the run is stopped."""


class _Fake(ChannelRun):
    def __init__(self, runs: Runs, config: Config) -> None:
        super().__init__(config, "", lambda: pytest.fail("no Spark"))
        self.runs, self.claims = runs, False

        self.late: SparkReplError | None = None
        self.works, self.asked = threading.Event(), 0

    @property
    def has_claimed(self) -> bool:
        return self.claims

    def is_at_work(self, wait_s: float) -> bool:
        self.asked += 1
        return self.works.is_set()

    def reload(self) -> None:
        self.runs.reloads.append(self.config.channel)

    def run(self) -> Result | None:
        name = self.config.channel
        ways = self.runs.ways[name]
        assert channel_here() == name
        way = ways.pop(0) if len(ways) > 1 else ways[0]
        if isinstance(way, BaseException) and not isinstance(way, Late):
            raise way
        self.claims = True
        if way is None or isinstance(way, Late):
            self.runs.running.add(name)
            self._stop.wait(_MOST_S)
            if way is not None:
                raise self.late or way
            return RESULT
        assert isinstance(way, Result)
        return way


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Runs]]:
    made: list[Runs] = []
    monkeypatch.chdir(tmp_path)  # where the targets are

    def begin(again_s: float = 600.0, **ways: Any) -> Runs:
        made.append(Runs(ways, again_s))
        made[-1].thread.start()
        return made[-1]

    yield begin
    for one in made:
        one.channels.stop()
        one.thread.join(_MOST_S)
        assert not one.thread.is_alive()


def test_each_ends_by_itself_and_all_by_stop(runs):
    found = runs(eu=[RESULT], us=[None])
    found.until(lambda: found.running == {"us"})
    assert found.thread.is_alive()
    found.channels.stop()
    found.thread.join(_MOST_S)
    assert found.ended == {"eu": RESULT, "us": RESULT}


def test_one_that_fails_leaves_the_others_alone_and_is_begun_again(runs):
    found = runs(eu=[SourceError("refused"), None], us=[None])
    found.until(lambda: bool(found.errors) and found.running == {"us"})
    assert found.begun.count(("eu", True)) == 1 and str(found.errors[0]) == "refused"
    found.channels.reload()  # it need not wait
    found.until(lambda: found.running == {"eu", "us"})
    assert found.begun.count(("eu", True)) == 2, "what is there is taken over once it was claimed"
    assert found.reloads == ["us"]
    assert [name for name, _ in found.begun].count("us") == 1
    found.channels.stop()
    found.thread.join(_MOST_S)
    assert found.ended == {"eu": RESULT, "us": RESULT}


def test_how_the_last_run_ended_is_how_it_ends(runs):
    found = runs(eu=[SourceError("refused")], us=[None])
    found.until(lambda: bool(found.errors) and found.running == {"us"})
    found.channels.stop()
    found.thread.join(_MOST_S)
    assert isinstance(found.ended, SourceError)


def test_a_faulty_configuration_waits_to_be_mended(runs):
    found = runs(0.01, eu=[ConfigError("a port that is taken"), None], us=[SourceError("no"), None])
    found.until(lambda: found.running == {"us"} and len(found.errors) == 2)
    assert [name for name, _ in found.begun].count("eu") == 1
    found.channels.reload()
    found.until(lambda: found.running == {"eu", "us"})


def test_it_ends_when_none_can_go_on(runs):
    found = runs(eu=[ConfigError("a port that is taken")], us=[RESULT])
    found.thread.join(_MOST_S)
    assert isinstance(found.ended, ConfigError)


@pytest.mark.parametrize("error", [ZeroDivisionError("here"), SystemExit("here")])
def test_what_nobody_expected_is_an_error_of_its_channel(runs, error):
    found = runs(eu=[error, None], us=[None])
    found.until(lambda: bool(found.errors))
    assert str(found.errors[0]) == f"{type(error).__name__}: here"
    found.channels.reload()
    found.until(lambda: found.running == {"eu", "us"})


def test_a_channel_that_fails_is_started_again(runs):
    found = runs(0.01, eu=[SourceError("no"), SourceError("no"), None], us=[None])
    found.until(lambda: found.running == {"eu", "us"})
    assert len(found.errors) == 2


def test_the_jvms_end_is_that_of_all(runs):
    found = runs(eu=[JvmEndedError("gone")], us=[None])
    found.thread.join(_MOST_S)
    assert isinstance(found.ended, JvmEndedError) and found.errors == [found.ended]


def test_it_is_the_jvms_end_that_the_process_ends_with(runs):
    """By a configuration's fault a service manager would leave it at rest."""
    found = runs(eu=[ConfigError("a port that is taken")], us=[Late("gone")])
    found.until(lambda: bool(found.errors) and found.running == {"us"})
    found.fakes["us"].late = JvmEndedError("gone")
    found.fakes["us"].stop()
    found.thread.join(_MOST_S)
    assert isinstance(found.ended, JvmEndedError)


def test_a_channel_at_rest_is_no_reason_to_end_with_its_fault(runs):
    found = runs(eu=[ConfigError("a port that is taken")], us=[Late("us")])
    found.until(lambda: bool(found.errors) and found.running == {"us"})
    found.channels.stop()
    found.thread.join(_MOST_S)
    assert str(found.ended) == "us"


def test_what_is_at_work_still_is_waited_for_unless_all_end(runs):
    found = runs(0.01, eu=[Late("eu"), None], us=[None])
    found.until(lambda: found.running == {"eu", "us"})
    found.fakes["eu"].works.set()
    found.fakes["eu"].stop()
    found.until(lambda: found.fakes["eu"].asked > 2)
    assert not found.errors
    found.fakes["eu"].works.clear()
    found.until(lambda: found.begun.count(("eu", False)) == 1)


def test_what_fails_while_all_end_is_told(runs):
    found = runs(eu=[Late("eu")], us=[Late("us")])
    found.until(lambda: found.running == {"eu", "us"})
    found.channels.stop()
    found.thread.join(_MOST_S)
    assert sorted(map(str, found.errors)) == ["eu", "us"]
    assert str(found.ended) == "eu"


def test_one_that_was_second_at_an_empty_target_goes_beside_at_once(runs):
    found = runs(eu=[TakenFirstError("us was first"), None], us=[None])
    found.until(lambda: found.running == {"eu", "us"})
    assert not found.errors


def test_one_that_stays_second_waits_as_after_any_error(runs):
    found = runs(eu=[TakenFirstError("us was first"), TakenFirstError("again"), None], us=[None])
    found.until(lambda: bool(found.errors) and found.running == {"us"})
    found.thread.join(0.5)
    assert [name for name, _ in found.begun].count("eu") == 2, "it waits"
    found.channels.reload()
    found.until(lambda: found.running == {"eu", "us"})


def test_a_file_that_is_read_anew_goes_with_the_others(runs):
    found = runs(eu=[SourceError("no"), None], us=[None])
    found.until(lambda: bool(found.errors) and found.running == {"us"})
    found.keys["relay.path"] = "us"
    found.channels.reload()
    found.until(lambda: len(found.errors) == 2)
    assert "relay.path is one folder" in str(found.errors[1])
    found.keys.clear()
    found.channels.reload()
    found.until(lambda: found.running == {"eu", "us"})


def test_a_file_that_a_run_has_read_anew_is_no_reason_to_begin_another_at_once(runs):
    found = runs(eu=[Late("eu"), None], us=[None])
    found.until(lambda: found.running == {"eu", "us"})
    found.channels.reload()
    assert sorted(found.reloads) == ["eu", "us"]
    found.fakes["eu"].stop()
    found.until(lambda: bool(found.errors))
    found.thread.join(0.5)
    assert [name for name, _ in found.begun].count("eu") == 1, "it waits"
    found.channels.reload()
    found.until(lambda: [name for name, _ in found.begun].count("eu") == 2)


def test_taking_over_ends_with_the_first_claim(runs):
    found = runs(eu=[Late("eu"), None], us=[None])
    found.until(lambda: found.running == {"eu", "us"})
    found.fakes["eu"].stop()
    found.until(lambda: bool(found.errors))
    found.channels.reload()
    found.until(lambda: found.begun.count(("eu", False)) == 1)


def test_a_channel_keeps_its_name(runs):
    found = runs(eu=[SourceError("no"), None], us=[None])
    found.until(lambda: bool(found.errors) and found.running == {"us"})
    found.renamed["eu.toml"] = "uk"
    found.channels.reload()
    found.until(lambda: len(found.errors) == 2)
    assert "channel is 'uk' now, and was 'eu'" in str(found.errors[1])


def test_files_that_can_not_run_side_by_side():
    one = Config().override({"channel": "eu", "relay.path": "log"})
    with pytest.raises(ConfigError, match=r"a and b: relay\.path is one folder"):
        ChannelRuns({"a": one, "b": one.override({"channel": "us"})}, None, None, None)  # type: ignore[arg-type]
    other = one.override({"relay.path": "else", "target.path": "lake2", "source.host": "b"})
    with pytest.raises(ConfigError, match="two files have one channel"):
        ChannelRuns({"a": one, "b": other}, None, None, None)  # type: ignore[arg-type]
