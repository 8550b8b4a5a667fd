from collections.abc import Mapping, Sequence

import numpy as np

class Settings:
    def __init__(
        self,
        controller: str,
        word_size: int,
        num_reads: int,
        forget_bias: float,
        clip_value: float | None = None,
        used_slots: bool = False,
        writes: str = "soft",
    ) -> None: ...

class Kernel:
    def __init__(self, threads: int, simd: str | None = None) -> None: ...
    def forward(
        self,
        settings: Settings,
        parameters: Mapping[str, object],
        inputs: object,
        memory_size: int,
        constraints: Sequence[tuple[str, object]],
        keep: bool,
        weights: bool,
        limit: int | None = None,
        state: Mapping[str, object] | None = None,
        end: bool = False,
    ) -> tuple[
        np.ndarray,
        np.ndarray,
        np.ndarray | None,
        np.ndarray | None,
        np.ndarray | None,
        dict[str, np.ndarray] | None,
        int,
    ]: ...
    def backward(
        self, of: int, output_cotangents: object, cell_cotangents: object | None
    ) -> dict[str, np.ndarray]: ...
    @property
    def simd(self) -> str: ...
    @property
    def workspace_bytes(self) -> int: ...

def simd_levels() -> list[str]: ...
