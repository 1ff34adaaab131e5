class KazooState:
    SUSPENDED: str
    CONNECTED: str
    LOST: str

class WatchedEvent:
    type: str
    state: str
    path: str

class ZnodeStat:
    version: int
    ephemeralOwner: int
    numChildren: int
