"""Test unreachable brokers: one log line per outage, one at its end, and the lanes that are woken then."""

from __future__ import annotations

import re
from math import inf

from structlog.typing import EventDict

from mirror.client.brokers.reachability import Reachability
from mirror.client.promptness import PATIENCE_SECONDS, SLOWEST_LINK, Promptness
from mirror.errors import NotAuthorized, TimedOut, Unreachable
from mirror.protocol.control.cluster import Endpoint

ONE, TWO = Endpoint("one", 9092), Endpoint("two", 9092)
SILENT = "does not respond"
REFUSED = Unreachable("one:9092 cannot be reached: Connection refused")


def lines(logged: list[EventDict]) -> list[EventDict]:
    return [one for one in logged if one["log_level"] != "debug"]


def test_an_outage_of_any_length_is_two_lines(logged: list[EventDict]) -> None:
    brokers = Reachability("target")
    for attempt in range(100):
        brokers.tries(ONE, 100.0 + attempt)
        brokers.failed(ONE, REFUSED, 100.5 + attempt)
        brokers.swept({}, 100.6 + attempt)
    (begun,) = lines(logged)
    assert (begun["event"], begun["cluster"]) == ("broker unavailable", "target")
    assert begun["address"] == "one:9092"
    assert str(REFUSED) in begun["reason"]
    brokers.opened(ONE, 200.5)
    brokers.opened(ONE, 201.0)
    (ended,) = lines(logged)[1:]
    assert (ended["event"], ended["cluster"]) == ("broker available again", "target")
    assert (ended["address"], ended["seconds"]) == ("one:9092", 100.0)


def test_attempts_come_slower_up_to_half_a_second(logged: list[EventDict]) -> None:
    brokers = Reachability("target")
    waits = []
    for _ in range(7):
        waits.append(brokers.tries(ONE, 1.0))
        brokers.failed(ONE, REFUSED, 1.0)
    assert waits == [0.0, 0.05, 0.1, 0.2, 0.4, 0.5, 0.5]
    brokers.opened(ONE, 2.0)
    assert brokers.tries(ONE, 2.0) == 0.0


def test_the_end_of_an_outage_is_taken_once_with_a_moment_before_its_first_failure() -> None:
    brokers = Reachability("target")
    brokers.opened(ONE, 50.0)
    assert brokers.take_returned() is None, "no broker was unreachable"
    brokers.failed(ONE, REFUSED, 100.0)
    assert brokers.take_returned() is None, "it is still unreachable"
    brokers.failed(TWO, Unreachable("two:9092 cannot be reached: Connection refused"), 110.0)
    brokers.opened(TWO, 120.0)
    brokers.opened(ONE, 121.0)
    assert brokers.take_returned() == 100.0 - PATIENCE_SECONDS
    assert brokers.take_returned() is None


def test_a_broker_that_accepts_connections_and_answers_nothing_is_an_outage(
    logged: list[EventDict],
) -> None:
    brokers = Reachability("target")
    brokers.swept({"one:9092": (100.0, SILENT)}, 104.9)
    assert lines(logged) == []
    for now in (105.0, 105.5, 135.0):
        brokers.swept({"one:9092": (100.0, SILENT)}, now)
    assert len(lines(logged)) == 1
    assert re.search(r"\bone:9092\b.*\bconnections\b", lines(logged)[0]["reason"])
    brokers.swept({"one:9092": (inf, SILENT)}, 140.0)
    ended = lines(logged)[1]
    assert (ended["event"], ended["address"]) == ("broker available again", "one:9092")
    assert brokers.take_returned() == 105.0 - PATIENCE_SECONDS


def test_an_idle_connection_does_not_end_the_outage_of_an_address_that_is_still_tried(
    logged: list[EventDict],
) -> None:
    brokers = Reachability("target")
    brokers.tries(ONE, 100.0)
    brokers.failed(ONE, REFUSED, 100.0)
    brokers.swept({"one:9092": (inf, SILENT)}, 101.0)
    assert len(lines(logged)) == 1
    assert brokers.take_returned() is None


def test_the_first_connection_to_a_silent_address_is_reported_before_it_fails(
    logged: list[EventDict],
) -> None:
    brokers = Reachability("target")
    brokers.tries(ONE, 100.0)
    brokers.swept({}, 104.0)
    assert lines(logged) == []
    brokers.swept({}, 105.0)
    since, sentence = brokers.silence() or (0.0, "")
    assert (since, sentence.split()[0]) == (100.0, "one:9092")
    assert sentence in lines(logged)[0]["reason"]


def test_a_broker_that_has_left_the_cluster_is_not_waited_for() -> None:
    brokers = Reachability("target")
    brokers.tries(ONE, 100.0)
    brokers.failed(ONE, REFUSED, 100.0)
    brokers.tries(TWO, 110.0)
    brokers.keep([TWO])
    assert brokers.silence()[0] == 110.0
    assert brokers.take_returned() is None


def test_a_refusal_and_a_silence_are_one_outage_but_that_we_are_not_let_in_is_news(
    logged: list[EventDict],
) -> None:
    brokers = Reachability("target")
    brokers.tries(ONE, 100.0)
    brokers.failed(ONE, REFUSED, 100.0)
    brokers.failed(ONE, TimedOut("one:9092 accepts connections and does not answer"), 130.0)
    assert len(lines(logged)) == 1
    brokers.failed(ONE, NotAuthorized("authenticating as mirror: the broker answered no"), 131.0)
    assert "authenticating as mirror" in lines(logged)[1]["reason"]


def test_a_late_answer_counts_until_a_prompt_one_comes() -> None:
    answers = Promptness()
    assert answers.silence(100.0, 109.0) == (100.0, SILENT)
    answers.answered(100.0, 106.0, 0)
    assert answers.silence(106.5, 106.5) == (100.0, "responds after 6 s")
    answers.answered(106.5, 114.0, 0)
    # A response after 7.5 s does not change the text.
    assert answers.silence(114.5, 120.0) == (100.0, "responds after 6 s"), "about"
    answers.answered(114.5, 127.5, 0)
    assert answers.silence(128.0, 128.0) == (100.0, "responds after 13 s")
    assert answers.silence(128.0, 154.0) == (100.0, SILENT), "silent for twice that time"
    answers.answered(128.0, 132.9, 0)
    assert answers.silence(133.0, 133.0) == (133.0, SILENT)


def test_a_broker_that_is_asked_nothing_more_is_not_late_for_long() -> None:
    answers = Promptness()
    answers.answered(100.0, 106.0, 0)
    assert answers.silence(inf, 106.0 + PATIENCE_SECONDS - 0.1)[0] == 100.0
    assert answers.silence(inf, 106.0 + PATIENCE_SECONDS)[0] == inf


def test_the_bytes_of_an_answer_take_their_time() -> None:
    answers = Promptness()
    answers.answered(100.0, 120.0, 15 * SLOWEST_LINK + 1)
    assert answers.silence(inf, 120.0)[0] == inf
    answers.answered(100.0, 120.0, 15 * SLOWEST_LINK)
    assert answers.silence(inf, 120.0)[0] == 100.0


def test_an_address_that_is_no_longer_tried_is_no_outage() -> None:
    brokers = Reachability("target")
    brokers.tries(ONE, 100.0)
    brokers.failed(ONE, REFUSED, 100.5)
    brokers.ended(ONE, 100.5)
    brokers.swept({}, 105.0)
    assert brokers.silence()[0] == 100.0, "it may be tried again"
    brokers.swept({}, 106.0)
    assert brokers.silence() == (inf, "")
    brokers.tries(TWO, 110.0)
    for now in (115.0, 140.0):
        brokers.swept({}, now)
        assert brokers.silence()[0] == 110.0, "the attempt takes long"


def test_a_silence_has_one_beginning_however_often_another_connection_is_opened() -> None:
    brokers = Reachability("target")
    due = 100.0
    for _ in range(5):
        for later in (5.0, 15.0, 30.0):
            waiting = {"one:9092": (due, SILENT)}
            brokers.swept(waiting, due + later)
            assert brokers.silence(waiting, due + later)[0] == 100.0
        now = due + 30.5
        brokers.tries(ONE, now)
        assert brokers.silence()[0] == 100.0
        brokers.opened(ONE, now)
        brokers.ended(ONE, now)
        due = now + 0.5
    brokers.swept({"one:9092": (inf, SILENT)}, due + 20.0)
    brokers.tries(ONE, due + 60.0)
    assert brokers.silence()[0] == due + 60.0


def test_a_broker_that_has_answered_again_is_not_silent_since_its_last_outage() -> None:
    brokers = Reachability("target")
    brokers.swept({"one:9092": (100.0, SILENT)}, 130.0)
    brokers.swept({"one:9092": (131.0, SILENT)}, 131.1)
    assert brokers.silence({"one:9092": (131.0, SILENT)}, 131.1)[0] == 131.0
    brokers.tries(ONE, 131.2)
    assert brokers.silence()[0] == 131.2


def test_a_former_connection_counts_until_a_prompt_answer() -> None:
    answers = Promptness()
    answers.answered(90.0, 91.0, 0)
    assert answers.usual == 1.0
    answers.answered(90.0, 89.0, 0)
    assert answers.usual == 0.0
    other = Promptness()
    other.continue_from(Promptness(), 100.0, 106.0)
    assert other.silence(inf, 106.5) == (100.0, SILENT)
    assert other.silence(107.0, 107.0) == (100.0, SILENT)
    assert other.patience == 2 * PATIENCE_SECONDS, "it may be slow"
    other.answered(107.0, 113.0, 0)
    assert other.usual == inf
    other.answered(107.0, 107.1, 0)
    assert other.silence(inf, 107.2)[0] == inf
    assert other.usual < 1.0
    assert other.patience == PATIENCE_SECONDS
