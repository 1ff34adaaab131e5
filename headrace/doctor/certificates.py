"""Checks the certificates in the settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from headrace.doctor.diagnosis import DoctorFinding, Subject
from mirror.tls import DAY_SECONDS, CertificateValidity
from mirror.wording import counted

_SOON_DAYS: Final = 30
_RENEW: Final = "replace the file; Headrace reads changed files for the next connection"


def examined_certificates(
    certificates: Iterable[CertificateValidity], now_ms: int
) -> Iterator[DoctorFinding]:
    """Check the remaining validity of each certificate file."""
    for certificate in certificates:
        subject = Subject(certificate.setting)
        left = certificate.seconds_left(now_ms)
        if left is None:
            yield subject.problem(certificate.problem, "it must be a PEM file")
            continue
        days = int(abs(left) // DAY_SECONDS)
        if left <= 0:
            sentence = f"{certificate.file} expired {counted(days, 'day')} ago"
            yield subject.problem(sentence, _RENEW)
        elif days < _SOON_DAYS:
            yield subject.warning(f"{certificate.file} expires in {counted(days, 'day')}", _RENEW)
        else:
            yield subject.ok(f"{certificate.file} expires in {counted(days, 'day')}")
