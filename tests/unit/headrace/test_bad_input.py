"""Test typical mistakes in commands: one line with advice, exit code 2, no traceback."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from headrace.__main__ import main

SIDES = "--source a:1 --destination b:1"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("copy --source a:70000 --destination b:1 --topics x", "use host:port"),
        ("copy --source a:0 --destination b:1 --topics x", "between 1 and 65535"),
        ("copy --source nosuch --destination b:1 --topics x", "(destination, source)"),
        ("copy --source a:1 --destination b:1, --topics x", "--destination: ''"),
        (f"copy {SIDES} --topics (", "regular expression"),
        (f"copy {SIDES} --topics x --transform mask-field", "write mask-field:a.b"),
        (f"copy {SIDES} --topics x --transform nosuch", "unknown transform 'nosuch'"),
        (f"copy {SIDES} --topics x --on-rejection drop", "pause, dead-letter, skip"),
        (f"copy {SIDES} --topics x --from 2026-13-01", "earliest-local"),
        (f"copy {SIDES} --topics x --from committed", "'committed'"),
        (f"copy {SIDES} --topics x --from 1795248000", "milliseconds"),
        (
            "copy --source file:/nowhere --destination b:1 --topics x --from earliest-local",
            "between two clusters",
        ),
        (f"copy {SIDES} --topics x --rename plain", "use *"),
        (f"copy {SIDES} --topics x --state a/b", "slash"),
        (f"copy {SIDES} --topics x --report .", "--report ."),
        (f"copy {SIDES} --topics x --report nowhere/report.json", "--report nowhere/report.json"),
        (f"verify {SIDES} --topics x --isolation foo", "read-committed, read-uncommitted"),
        (f"verify {SIDES} --topics [", "regular expression"),
        ("verify --source a:x --destination b:1 --topics x", "use host:port"),
        ("translate --source nosuch --destination b:1 --state s --group g", "or an alias"),
        ("progress --destination nosuch --state s", "or an alias"),
        ("audit x --at foo:bar", "'foo:bar'"),
        ("monitor --once --at nosuch", "write host:port"),
        ("plan --since 7x", "90s, 10m, 6h"),
        ("pmp sampler --cluster source --interval soon", "90s, 10m, 6h"),
        ("pmp sampler --cluster nosuch", "destination, source"),
        ("pmp loads --cluster x --statistic median", "median"),
        ("serve --port 0", "mirror.instance_name"),
        ("serve --port 70000", "65535"),
        ("config check --config .", "cannot read"),
        ("config check --config binary.toml", "binary.toml"),
        ("config check --config control.toml", "instance_name 'a\\x07'"),
        ("config check --config topic.toml", "progress_topic 'a b'"),
        ("datastream get ''", "name ''"),
        ("datastream delete ..", "name '..'"),
        ("datastream pause-partitions x t --reason r", "'t'"),
        ("datastream resume-partitions x :1", "':1'"),
        ("audit .", "name '.'"),
        ("datastream create x --topics t --owner me --guarantee once", "'--guarantee': 'once' is not one of"),
        ("datastream create x --topics t --owner me --max-tasks 0", "'--max-tasks': must be at least 1"),
        ("datastream create x --topics t --owner me --objective-ms x", "'--objective-ms': must be a valid"),
        ("datastream list --output xml", "'xml' is not one of"),
        ("acting neither", "'neither' is not one of"),
        (f"copy {SIDES} --topics 'a\u0007'", "control characters"),
        (f"copy {SIDES} --topics x --state 'a\u0007'", "the state"),
    ],
)
def test_wrong_use_is_one_line_with_advice(
    line: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "control.toml").write_text('[mirror]\ninstance_name = "a\\u0007"\n')
    (tmp_path / "topic.toml").write_text('[mirror]\nprogress_topic = "a b"\n')
    monkeypatch.setattr(sys, "argv", ["headrace", *shlex.split(line)])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert ended.value.code == 2, told
    assert said in " ".join(told.replace("│", " ").split())
    assert not re.search(r"Value error|Input should", told)
    assert "Traceback" not in told
