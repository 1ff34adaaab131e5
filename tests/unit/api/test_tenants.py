"""What one tenant cannot do to another through REST."""

from __future__ import annotations

from typing import Any, Final

from tests.fakes.site import a_body
from tests.unit.api.guarded import Guarded

PATH: Final = "/v1/datastreams"
KEY: Final = {"Idempotency-Key": "8e03978e"}


def creation(owner: str, name: str, **more: Any) -> dict[str, Any]:
    """Body of a creation that selects a topic of its own."""
    return a_body(
        name, **{"source": {"cluster": "source", "topics": name}, "metadata": {"owner": owner}, **more}
    )


def test_an_idempotency_key_belongs_to_its_principal(guarded: Guarded) -> None:
    first = guarded.as_("owner").post(PATH, json=creation("mine", "a"), headers=KEY)
    assert first.status_code == 201
    other = guarded.as_("operator")
    assert other.post(PATH, json=creation("theirs", "b"), headers=KEY).status_code == 201
    taken = other.post(PATH, json=creation("mine", "a"), headers=KEY)
    assert (taken.status_code, taken.json()["kind"]) == (409, "AlreadyExists")
    again = guarded.as_("owner").post(PATH, json=creation("mine", "a"), headers=KEY)
    assert (again.status_code, again.json()) == (201, first.json())


def test_an_identity_of_brooklins_client_belongs_to_its_principal(guarded: Guarded) -> None:
    owner, operator = guarded.as_("owner"), guarded.as_("operator")
    assert operator.post(PATH, json=creation("theirs", "model")).status_code == 201
    document = operator.get("/datastream/model").json()
    assert guarded.admin.delete(f"{PATH}/model").is_success
    guarded.site.tick()
    headers = {"X-RestLi-Protocol-Version": "2.0.0"}
    document["metadata"] = {"owner": "mine", "datastreamUUID": "0-1"}
    for caller, status in ((owner, 201), (operator, 409), (owner, 201)):
        assert caller.post("/datastream", json=document, headers=headers).status_code == status
