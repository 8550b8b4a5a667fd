"""The names of axes in shapes; other axes are local to the function that names them.

| axis      | symbol | meaning                                                       |
|-----------|--------|---------------------------------------------------------------|
| batch     | B      | samples processed side by side                                |
| time      | T      | steps of one sequence                                         |
| inputs    | X      | channels of the network's input, the control channel last     |
| outputs   | Y      | channels of the network's output, the signal channel last     |
| slots     | N      | rows of the memory                                            |
| word      | W      | entries of one slot                                           |
| reads     | R      | read heads                                                    |
| hidden    | H      | entries of the controller's output                            |
| chi       |        | the controller's input: X + R*W                               |
| seen      |        | what the gates see: chi and the carried h or c                |
| gates     |        | four gates of H entries: input, forget, candidate, output     |
| cell      |        | entries of the carried cell state: H, or 0 without a state    |
| interface |        | entries of the interface vector: W*R + 3W + 5R + 3            |
| trials    |        | trained instances of one task and approach                    |
| lengths   | L      | task input lengths of an evaluation                           |
| dimensions |      | principal components of the cell state                        |

Model functions take one sample at one step; `unroll` adds `batch` and `time`.
Sequences are time-major: `Float[Array, "time batch inputs"]`.
"""

from typing import TypeAlias

import numpy as np
from jaxtyping import Array, Bool, Float, Int

AnyArray: TypeAlias = Array | np.ndarray
"""An array of JAX or of NumPy, which batches are made of."""

__all__ = ["AnyArray", "Array", "Bool", "Float", "Int"]
