"""Validity of the certificates in the settings: of the files as they are, in doctor and as a metric."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from api.metrics.collector import CertificateCollector
from headrace.clusters.certificates import certificates_of
from headrace.doctor.certificates import examined_certificates
from headrace.doctor.diagnosis import Grade
from headrace.settings import HeadraceSettings
from mirror.tls import DAY_SECONDS, CertificateValidity
from tests.certificates import Authority
from tests.fakes.clock import ManualClock

DAY_MS = int(DAY_SECONDS * 1000)


def settings(folder: Path, certificate: Path, authority: Path) -> HeadraceSettings:
    security = {
        "protocol": "SSL",
        "ca_file": str(authority),
        "certificate_file": str(certificate),
        "key_file": str(certificate),
    }
    clusters = {
        "east": {"bootstrap_servers": "a:1", "security": security},
        "plain": {"bootstrap_servers": "b:1"},
    }
    return HeadraceSettings.model_validate({"clusters": clusters})


def test_each_file_has_the_end_of_its_validity_also_after_it_was_replaced(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    chosen = settings(tmp_path, authority.certificate("ours", 10), authority.file)
    first = {one.setting: one.until_ms or 0 for one in certificates_of(chosen)}
    assert first.keys() == {
        "clusters.east.security.certificate_file",
        "clusters.east.security.ca_file",
    }
    authority.certificate("ours", 20)
    again = {one.setting: one.until_ms or 0 for one in certificates_of(chosen)}
    gained = {name: round((again[name] - first[name]) / DAY_MS) for name in first}
    assert gained == {
        "clusters.east.security.certificate_file": 10,
        "clusters.east.security.ca_file": 0,
    }


def test_a_chain_ends_with_its_first_certificate_and_a_bundle_with_its_last(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    both = tmp_path / "both.pem"
    texts = [authority.certificate(f"of {days}", days).read_bytes() for days in (5, 50)]
    both.write_bytes(b"\n".join(texts))
    found = {one.setting[-16:]: one.until_ms or 0 for one in certificates_of(settings(tmp_path, both, both))}
    ours, theirs = sorted(found.values())
    assert round((theirs - ours) / DAY_MS) == 45
    assert found["certificate_file"] == ours


@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN CERTIFICATE-----\nhalf", b"\xff" * 100])
def test_a_file_that_cannot_be_read_is_a_problem_and_no_error(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "ours.pem"
    if content is not None:
        file.write_bytes(content)
    found = list(certificates_of(settings(tmp_path, file, file)))
    assert [one.until_ms for one in found] == [None, None]
    assert {one.grade for one in examined_certificates(found, 0)} == {Grade.PROBLEM}


@pytest.mark.parametrize(
    ("days", "grade"),
    [(-3, Grade.PROBLEM), (0, Grade.PROBLEM), (3, Grade.WARNING), (29, Grade.WARNING), (300, Grade.OK)],
)
def test_doctor_grades_the_days_that_are_left(days: int, grade: Grade) -> None:
    (finding,) = examined_certificates([CertificateValidity("x", "f", days * DAY_MS)], 0)
    assert finding.grade is grade
    assert f"{abs(days)} day" in finding.sentence


def test_the_metric_counts_down_and_leaves_out_unreadable_files() -> None:
    clock = ManualClock()
    known = CertificateValidity("a", "f", clock.now_ms() + 5_000)
    registry = CollectorRegistry()
    unknown = CertificateValidity("b", "f", None, "half a file")
    registry.register(CertificateCollector(lambda: [known, unknown], clock))
    assert registry.get_sample_value("headrace_certificate_expires_in_seconds", {"setting": "a"}) == 5.0
    clock.advance(7.0)
    assert registry.get_sample_value("headrace_certificate_expires_in_seconds", {"setting": "a"}) == -2.0
    assert b'setting="b"' not in generate_latest(registry)
