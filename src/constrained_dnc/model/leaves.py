"""Trees of arrays: their leaves by name, and copies with some fields replaced."""

from __future__ import annotations

from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Shaped

from constrained_dnc.errors import RunError
from constrained_dnc.files import Tensors

Module = TypeVar("Module", bound=eqx.Module)


def with_fields(module: Module, **fields: Any) -> Module:
    """A copy of a module with some fields replaced; its `__init__` is not called."""
    other = object.__new__(type(module))  # not copy.copy, which never frees a module's arrays
    for name, value in (vars(module) | fields).items():
        object.__setattr__(other, name, value)
    return other


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """The leaves of a tree in order, each with the path to it, such as `controller.weight`."""
    return [
        (jax.tree_util.keystr(path, simple=True, separator="."), leaf)
        for path, leaf in jax.tree.leaves_with_path(tree)
    ]


def name_leaves(tree: Any, prefix: str) -> dict[str, Shaped[np.ndarray, "..."]]:
    """The arrays of a tree by `prefix/path`."""
    return {f"{prefix}/{name}": np.asarray(leaf) for name, leaf in named_leaves(tree)}


def fill_leaves(like: Any, tensors: Tensors, prefix: str) -> Any:
    """A tree with the structure of `like` and the arrays stored by `name_leaves`."""
    leaves = []
    for path, leaf in named_leaves(like):
        name = f"{prefix}/{path}"
        stored = tensors.get(name)
        if stored is None or (stored.shape, stored.dtype) != (leaf.shape, leaf.dtype):
            what = "missing" if stored is None else f"{stored.dtype} of shape {stored.shape}"
            raise RunError(f"{name} is {what}; needed: {leaf.dtype} of shape {leaf.shape}")
        leaves.append(jax.numpy.asarray(stored))
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
