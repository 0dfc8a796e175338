"""Libraries that compute: PyTorch where it is installed, as jobs then use it, else numpy."""

from __future__ import annotations

from importlib import import_module
from itertools import accumulate, cycle
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.measuring.cases import WIDTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfmodel.measuring.cases import Case

    Run = Callable[[], object]
    Sizes = tuple[int, ...]

SEED = 1
POOL = 2**24
"""Random numbers that operands are views of: drawing them anew would take longer than the kernels, and each call of a product takes the next
ones, since a step finds its weights evicted by all that ran in between."""
SETS = 256
"""Operands of one product at most; those of small ones then stay in the caches."""


def in_turn(pool: Any, shapes: Sequence[Sizes]) -> Iterator[list[Any]]:
    """Tensors of some shapes for each call, one set after the other along a pool, over and over.

    >>> calls = in_turn(np.arange(20), [(2, 3), (3, 1)])
    >>> [[int(tensor.flat[0]) for tensor in next(calls)] for _ in range(3)]
    [[0, 6], [9, 15], [0, 6]]
    """
    sizes = [prod(shape) for shape in shapes]
    ends = list(accumulate(sizes))
    sets = max(1, min(SETS, len(pool) // ends[-1]))
    return cycle(
        [
            [
                pool[turn * ends[-1] + end - size : turn * ends[-1] + end].reshape(shape)
                for size, end, shape in zip(sizes, ends, shapes, strict=True)
            ]
            for turn in range(sets)
        ]
    )


class Numpy:
    """Kernels of numpy and its BLAS."""

    name = "numpy"

    def __init__(self) -> None:
        """Seed the operands."""
        self._random = np.random.default_rng(SEED)
        self._pool = self._random.random(POOL, dtype=np.float32)
        self._results = np.zeros(POOL, np.float32)

    @property
    def version(self) -> str:
        """Name and version."""
        return f"numpy {np.__version__}"

    def run_of(self, case: Case) -> Run:
        """A call that executes a case; raises KeyError where numpy has no such kernel."""
        return self._KINDS[case.kind](self, case.sizes)

    def _tensor(self, *shape: int) -> Any:
        return np.resize(self._pool, shape)

    def _product(self, sizes: Sizes) -> Run:
        rows, columns, depth = sizes
        operands = in_turn(self._pool, [(rows, depth), (depth, columns)])
        results = in_turn(self._results, [(rows, columns)])

        def run() -> object:
            a, b = next(operands)
            return np.matmul(a, b, out=next(results)[0])

        return run

    def _level(self, sizes: Sizes) -> Run:
        elements = max(1, sizes[0] // 12)
        a, b, out = (np.ones(elements, np.float32) for _ in range(3))
        return lambda: np.add(a, b, out=out)

    def _stream(self, sizes: Sizes) -> Run:
        a, b = (np.ones(sizes[0], np.float32) for _ in range(2))
        return lambda: a + b

    def _reduction(self, sizes: Sizes) -> Run:
        a = np.ones((2 * sizes[0], WIDTH), np.float32)  # read alone: twice the rows are as many bytes
        return lambda: a.sum(axis=1)

    def _strided(self, sizes: Sizes) -> Run:
        a = np.ones((sizes[0] // WIDTH, WIDTH), np.float32)
        return lambda: np.ascontiguousarray(a.T)

    def _rows(self, sizes: Sizes) -> Run:
        a = np.ones((sizes[0] // WIDTH, WIDTH), np.float32)
        return lambda: a.sum(axis=1)

    def _gather(self, sizes: Sizes) -> Run:
        rows = sizes[0] // 64
        table, index = np.ones((rows, 64), np.float32), self._random.integers(0, rows, rows)
        return lambda: table[index]

    _KINDS: dict[str, Callable[[Any, Sizes], Run]] = {  # noqa: RUF012 - a constant table
        "product": _product, "level": _level, "launch": _stream, "stream": _stream, "reduction": _reduction, "strided": _strided, "rows": _rows, "gather": _gather,
    }  # fmt: skip


class Torch:
    """Kernels of PyTorch on the CPU, called as eager code calls them."""

    name = "torch"

    def __init__(self, threads: int) -> None:
        """Import it and fix its threads; raises ImportError where it is not installed."""
        self._torch: Any = import_module("torch")
        self._torch.set_num_threads(threads)
        self._torch.manual_seed(SEED)
        self._pool: Any = self._torch.rand(POOL)
        self._results: Any = self._torch.zeros(POOL)
        self._torch.set_grad_enabled(mode=False)

    @property
    def version(self) -> str:
        """Name and version."""
        return f"PyTorch {self._torch.__version__}"

    def run_of(self, case: Case) -> Run:
        """A call that executes a case."""
        return self._KINDS[case.kind](self, case.sizes)

    def _tensor(self, *shape: int) -> Any:
        elements = prod(shape)
        pool = self._pool if elements <= POOL else self._torch.rand(elements)
        return pool[:elements].view(shape)

    def _product(self, sizes: Sizes) -> Run:
        rows, columns, depth = sizes
        operands = in_turn(self._pool, [(rows, depth), (depth, columns)])
        results = in_turn(self._results, [(rows, columns)])
        return lambda: self._torch.mm(*next(operands), out=next(results)[0])

    def _level(self, sizes: Sizes) -> Run:
        a, b, out = (self._torch.ones(max(1, sizes[0] // 12)) for _ in range(3))
        return lambda: self._torch.add(a, b, out=out)

    def _stream(self, sizes: Sizes) -> Run:
        a, b = (self._torch.ones(sizes[0]) for _ in range(2))
        return lambda: a + b

    def _reduction(self, sizes: Sizes) -> Run:
        a = self._tensor(sizes[0], WIDTH)
        return lambda: self._torch.softmax(a, -1)

    def _convolution(self, sizes: Sizes) -> Run:
        samples, inputs, outputs, side, kernel = sizes
        maps, filters = (
            self._tensor(samples, inputs, side, side),
            self._tensor(outputs, inputs, kernel, kernel),
        )
        return lambda: self._torch.conv2d(maps, filters, padding=kernel // 2)

    def _attention(self, sizes: Sizes) -> Run:
        q, k, v = (self._tensor(*sizes) for _ in range(3))
        return lambda: self._torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def _strided(self, sizes: Sizes) -> Run:
        a = self._torch.ones(sizes[0] // WIDTH, WIDTH)
        run: Run = a.T.contiguous
        return run

    def _rows(self, sizes: Sizes) -> Run:
        a = self._tensor(sizes[0] // WIDTH, WIDTH)
        return lambda: self._torch.nn.functional.layer_norm(a, (WIDTH,))

    def _gather(self, sizes: Sizes) -> Run:
        rows = sizes[0] // 64
        table, index = self._torch.ones(rows, 64), self._torch.randint(rows, (rows,))
        return lambda: self._torch.nn.functional.embedding(index, table)

    _KINDS: dict[str, Callable[[Any, Sizes], Run]] = {  # noqa: RUF012 - a constant table
        "product": _product, "level": _level, "launch": _stream, "stream": _stream, "reduction": _reduction, "convolution": _convolution,
        "attention": _attention, "strided": _strided, "rows": _rows, "gather": _gather,
    }  # fmt: skip


def engine(name: str, threads: int) -> Numpy | Torch:
    """The library of a name; raises ImportError where it is not installed."""
    return Torch(threads) if name == "torch" else Numpy()
