"""The values of the field ``pattern`` in the ZooKeeper node of a group member. They say how the member
selects topics."""

from typing import Final

__all__ = ["BLACK_LIST", "STATIC", "WHITE_LIST"]

STATIC: Final = "static"
WHITE_LIST: Final = "white_list"
BLACK_LIST: Final = "black_list"
