"""A site with access control and a principal of each role."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from httpx import Client

from api.access.gate import AccessMethods
from api.access.rights import Principal, Role
from api.access.tokens import TokenFile, add_entry, new_token
from mirror.settings import DefinitionSettings, KafkaCluster
from tests.fakes.clock import ManualClock
from tests.fakes.in_process import client_of
from tests.fakes.site import HOSTS, Site, a_body

PEOPLE: Final = {
    "viewer": Principal("wendy", Role.VIEWER),
    "owner": Principal("otto", Role.OWNER, frozenset({"mine"})),
    "operator": Principal("petra", Role.OPERATOR),
    "admin": Principal("ada", Role.ADMIN),
}


class Guarded:
    """A site with access control, with a datastream owned by `mine` and one owned by `theirs`."""

    def __init__(
        self,
        folder: Path,
        rights: Mapping[str, KafkaCluster] | None = None,
        rules: DefinitionSettings | None = None,
    ) -> None:
        self.file, self.clock = folder / "tokens", ManualClock()
        self.tokens, self.ids = dict[str, str](), dict[str, str]()
        for name, principal in PEOPLE.items():
            self.tokens[name] = self.add(principal, name)
        self.site = Site(access=self.access(), rights=rights, rules=rules)
        self.site.source.topics |= {"u": self.site.source.topics["t"]}
        self.admin = self.as_("admin")
        for name, topic in (("mine", "t"), ("theirs", "u")):
            body = a_body(name, source={"cluster": "source", "topics": topic}, metadata={"owner": name})
            assert self.admin.post("/v1/datastreams", json=body).status_code == 201
        self.site.tick()

    def access(self, **more: Any) -> AccessMethods:
        return AccessMethods(tokens=TokenFile(self.file, self.clock), hosts=HOSTS, **more)

    def add(self, principal: Principal, name: str = "", expires_ms: int | None = None) -> str:
        token, entry = new_token(principal, self.clock.now_ms(), expires_ms)
        add_entry(self.file, entry)
        self.ids[name] = entry.identity
        return token

    def as_(self, name: str) -> Client:
        client = client_of(self.site.app)
        client.headers["Authorization"] = f"Bearer {self.tokens[name]}"
        return client
