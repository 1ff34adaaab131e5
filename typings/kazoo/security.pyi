from typing import NamedTuple

class Id(NamedTuple):
    scheme: str
    id: str

class ACL(NamedTuple):
    perms: int
    id: Id

class Permissions:
    ALL: int

CREATOR_ALL_ACL: list[ACL]
