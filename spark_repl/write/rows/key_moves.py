"""exec_mode = idempotent where a row's key changes: which changes take effect.

MySQL passes over an UPDATE whose row isn't there, and one whose new key another row has. So what
becomes of one key depends on others, and on which of them the target has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...binlog.kernels.jit import jit_allocating
from ...binlog.rows.change_bits import EXISTED, EXISTS, MOVED

Bools = npt.NDArray[np.bool_]


def effective(
    code: npt.NDArray[np.int32], flags: npt.NDArray[np.uint8], there: Bools
) -> npt.NDArray[np.bool_]:
    """bool[n], of changes in log order: ``code`` is each one's key, ``flags`` EXISTED, EXISTS and
    MOVED, ``there`` [keys] whether the target has the key's row before them."""
    takes_effect: Bools = _effective(code, flags, there, MOVED)
    return takes_effect


@jit_allocating
def _effective(code: Any, flags: Any, there: Any, moved: Any) -> Any:
    exists = there.copy()
    out = np.ones(code.size, np.bool_)
    for i in range(code.size):
        change = flags[i]
        if change & moved:
            continue  # decided with its first half
        k = code[i]
        if i + 1 < code.size and flags[i + 1] & moved:
            to = code[i + 1]
            if exists[k] and (to == k or not exists[to]):
                exists[k] = False
                exists[to] = True
            else:
                out[i] = out[i + 1] = False
        elif change & EXISTED and change & EXISTS:
            out[i] = exists[k]
        else:
            exists[k] = change & EXISTS != 0
    return out
