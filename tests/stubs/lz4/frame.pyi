from typing import Final, TypeAlias

BLOCKSIZE_MAX64KB: Final[int]

_Bytes: TypeAlias = bytes | bytearray | memoryview

def compress(
    data: _Bytes,
    *,
    block_size: int = ...,
    block_linked: bool = ...,
    block_checksum: bool = ...,
    content_checksum: bool = ...,
    store_size: bool = ...,
) -> bytes: ...

class LZ4FrameCompressor:
    def begin(self, source_size: int = 0) -> bytes: ...
    def compress(self, data: _Bytes) -> bytes: ...
    def flush(self) -> bytes: ...

class LZ4FrameDecompressor:
    eof: bool
    needs_input: bool
    unused_data: bytes | None
    def decompress(self, data: _Bytes, max_length: int = -1) -> bytes: ...
