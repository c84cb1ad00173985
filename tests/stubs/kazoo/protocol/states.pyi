class WatchedEvent: ...

class ZnodeStat:
    version: int
    owner_session_id: int | None

class KazooState:
    SUSPENDED: str
    CONNECTED: str
    LOST: str

class KeeperState:
    AUTH_FAILED: str
    CLOSED: str
