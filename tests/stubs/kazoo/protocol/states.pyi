class WatchedEvent: ...

class ZnodeStat:
    czxid: int
    mzxid: int
    version: int
    owner_session_id: int | None

class KazooState:
    SUSPENDED: str
    CONNECTED: str
    LOST: str

class KeeperState:
    AUTH_FAILED: str
    CLOSED: str
