"""What we use of google-re2 1.1, which has no types of its own."""

class error(Exception): ...  # noqa: N801

class Options:
    max_mem: int
    log_errors: bool
    never_capture: bool
    never_nl: bool

class _Regexp:
    @property
    def programsize(self) -> int: ...
    def fullmatch(self, text: bytes) -> object | None: ...
    def findall(self, text: bytes) -> list[bytes]: ...

def compile(pattern: str, options: Options | None = None) -> _Regexp: ...  # noqa: A001
