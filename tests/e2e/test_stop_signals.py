"""A shutdown as by systemd's default: SIGTERM to every process of the service at once."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from tests.e2e.conftest import NewInstance
from tests.kafka_data import Record, group_positions, make_topic, produce, read_all
from tests.mirrored import by_partition, create_datastream, wait_for_copy
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]


def test_a_signal_to_the_whole_process_group_loses_and_repeats_nothing(
    kafka_pair: KafkaPair, new_instance: NewInstance
) -> None:
    topic, value = f"group-{uuid4().hex[:8]}", random.randbytes(9_000)
    make_topic(kafka_pair.source.address, topic, 4, retention_ms="-1")
    records = [Record(n % 4, b"%d" % n, value, (), 1_700_000_000_000 + n) for n in range(400)]
    produce(kafka_pair.source.address, topic, records, **{"batch.size": 20_000})
    instance = new_instance("one", mirror__worker__processes="2")
    metadata = {
        "owner": "tests",
        "group.id": f"group-{topic}",
        "headrace.bytes-per-second": "400000",
        "headrace.guarantee": "at-least-once",  # records after the checkpoint would be repeated
    }
    create_datastream(instance, "stopped", topic, limits={"min_tasks": 4}, metadata=metadata)
    wait_for_copy(kafka_pair, topic, 40)
    workers = psutil.Process(instance.pid).children(recursive=True)
    assert len(workers) == 2
    assert instance.terminate_group() == 0
    assert not any(worker.is_running() for worker in workers)
    copied = by_partition(read_all(kafka_pair.destination.address, f"copy.{topic}"))
    assert 40 <= sum(map(len, copied.values())) < len(records), "it was not stopped in the middle"
    saved = group_positions(kafka_pair.source.address, f"group-{topic}", topic, 4)
    assert [max(position, 0) for position in saved] == [len(copied.get(number, ())) for number in range(4)]
    told = [json.loads(line) for line in instance.log_file.read_text().splitlines() if line.startswith("{")]
    assert told[-1]["event"] == "stopped"
    assert [one for one in told if one["level"] in ("error", "critical")] == []
    instance.start()
    wait_for_copy(kafka_pair, topic, len(records))
    everything = read_all(kafka_pair.destination.address, f"copy.{topic}")
    assert by_partition(everything) == by_partition(records), "records were lost or repeated"
    wait_until(
        lambda: group_positions(kafka_pair.source.address, f"group-{topic}", topic, 4) == [100] * 4,
        "the end is checkpointed",
        interval_seconds=0.5,
    )


def test_an_instance_whose_address_file_has_no_room_ends_and_names_it(tmp_path: Path) -> None:
    variables = {
        "HEADRACE_MIRROR__STATE_DIRECTORY": str(tmp_path),
        "HEADRACE_MIRROR__INSTANCE_NAME": "one",
        "HEADRACE_MIRROR__WORKER__PROCESSES": "1",
    }
    command = [sys.executable, "-m", "headrace", "serve", "--port", "0", "--address-file", "/dev/full"]
    with subprocess.Popen(
        command, env={**os.environ, **variables}, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as serving:
        try:
            told = serving.communicate(timeout=PATIENCE_SECONDS)[1]
            assert serving.returncode == 1
            assert "/dev/full" in told
            assert os.strerror(errno.ENOSPC) in told
            assert "Traceback" not in told
            with pytest.raises(ProcessLookupError):
                os.killpg(serving.pid, 0)
        finally:
            serving.kill()
