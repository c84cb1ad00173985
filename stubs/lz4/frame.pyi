from typing import Final

BLOCKSIZE_MAX64KB: Final[int]

def compress(
    data: bytes | bytearray | memoryview,
    *,
    block_size: int = ...,
    block_linked: bool = ...,
    store_size: bool = ...,
) -> bytes: ...

class LZ4FrameDecompressor:
    eof: bool
    needs_input: bool
    unused_data: bytes | None
    def decompress(self, data: bytes | bytearray | memoryview, max_length: int = -1) -> bytes: ...
