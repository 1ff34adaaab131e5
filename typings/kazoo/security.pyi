from typing import Any

CREATOR_ALL_ACL: list[Any]
