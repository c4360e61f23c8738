"""Kernels: the decorators and primitives of compiled code.

``jit`` compiles a function at its first call and stores its machine code in ``cache``. It also has
the reads, comparisons, copies and prints of all kernels; ``intrinsics`` are loads without a check
of the index. ``crc`` verifies events.

A kernel takes and returns arrays and numbers. It never raises: it returns an error code.
"""
