"""Kernels: what compiled code is made with and shares.

``jit`` compiles a function at its first call and keeps its machine code (``cache``), and has
what all kernels read, compare, copy and print with (``intrinsics``: without a look at the index);
``crc`` and ``carryless`` check events; ``zstd_frame`` finds where a frame ends.

A kernel takes and returns arrays and numbers, and says what is wrong by a code: it never raises.
"""
