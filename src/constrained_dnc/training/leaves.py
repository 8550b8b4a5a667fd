"""The arrays of a tree by name, as files hold them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import Shaped

from constrained_dnc.errors import RunError
from constrained_dnc.files import Tensors


def name_leaves(tree: Any, prefix: str) -> dict[str, Shaped[np.ndarray, "..."]]:
    """The arrays of a tree by the path to each."""
    return {name: np.asarray(leaf) for name, leaf in _named_leaves(tree, prefix)}


def fill_leaves(like: Any, tensors: Tensors, prefix: str) -> Any:
    """A tree of the kind of `like` with the arrays that `name_leaves` named."""
    leaves = []
    for name, leaf in _named_leaves(like, prefix):
        found = tensors.get(name)
        if found is None or (found.shape, found.dtype) != (leaf.shape, leaf.dtype):
            what = "missing" if found is None else f"{found.dtype} of shape {found.shape}"
            raise RunError(f"{name} is {what}; needed: {leaf.dtype} of shape {leaf.shape}")
        leaves.append(jax.numpy.asarray(found))
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _named_leaves(tree: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for path, leaf in jax.tree.leaves_with_path(tree):
        yield f"{prefix}/{jax.tree_util.keystr(path, simple=True, separator='.')}", leaf
