_Buffer = bytes | bytearray | memoryview

def compress(
    data: _Buffer,
    compression_level: int = 0,
    block_size: int = 0,
    content_checksum: bool = False,
    block_linked: bool = True,
    store_size: bool = True,
    return_bytearray: bool = False,
) -> bytes: ...
def decompress(data: _Buffer) -> bytes: ...

class LZ4FrameDecompressor:
    eof: bool
    def __init__(self, return_bytearray: bool = False) -> None: ...
    def decompress(self, data: _Buffer, max_length: int = -1) -> bytes: ...
