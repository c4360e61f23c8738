"""HMAC-SHA256 of many values at once, in hexadecimal digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .jit import jit, jit_allocating

Words = npt.NDArray[np.uint32]

_BLOCK = 64
_PRIMES = [n for n in range(2, 312) if all(n % d for d in range(2, n))]


def _fraction(prime: int, root: int) -> int:
    """Return the first 32 fractional bits of a prime's square (2) or cube (3) root."""
    low, high = 0, 1 << 40
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**root <= prime << (32 * root) else (low, middle)
    return low & 0xFFFFFFFF


_K = np.array([_fraction(prime, 3) for prime in _PRIMES[:64]], np.uint32)
_START = np.array([_fraction(prime, 2) for prime in _PRIMES[:8]], np.uint32)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


@jit
def compress(state: Words, block: Any, words: Words, k: Words) -> None:
    """Compress the 64 bytes of ``block`` into ``state``. ``words``: a buffer of 64 words."""
    for i in range(16):
        words[i] = np.uint32(
            (np.uint32(block[4 * i]) << np.uint32(24))
            | (np.uint32(block[4 * i + 1]) << np.uint32(16))
            | (np.uint32(block[4 * i + 2]) << np.uint32(8))
            | np.uint32(block[4 * i + 3])
        )
    for i in range(16, 64):
        x, y = words[i - 15], words[i - 2]
        low = turned(x, 7) ^ turned(x, 18) ^ (x >> np.uint32(3))
        high = turned(y, 17) ^ turned(y, 19) ^ (y >> np.uint32(10))
        words[i] = np.uint32(words[i - 16] + low + words[i - 7] + high)
    a, b, c, d = state[0], state[1], state[2], state[3]
    e, f, g, h = state[4], state[5], state[6], state[7]
    for i in range(64):
        sigma1 = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)
        choice = (e & f) ^ (~e & g)
        first = np.uint32(h + sigma1 + choice + k[i] + words[i])
        two = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)
        second = np.uint32(two + ((a & b) ^ (a & c) ^ (b & c)))
        h, g, f, e = g, f, e, np.uint32(d + first)
        d, c, b, a = c, b, a, np.uint32(first + second)
    state[0], state[1] = np.uint32(state[0] + a), np.uint32(state[1] + b)
    state[2], state[3] = np.uint32(state[2] + c), np.uint32(state[3] + d)
    state[4], state[5] = np.uint32(state[4] + e), np.uint32(state[5] + f)
    state[6], state[7] = np.uint32(state[6] + g), np.uint32(state[7] + h)


@jit
def turned(x: Any, by: Any) -> Any:
    return np.uint32((x >> np.uint32(by)) | (x << np.uint32(32 - by)))


@jit
def put_digest(state: Words, out: Any, at: Any) -> None:
    for i in range(8):
        for j in range(4):
            out[at + 4 * i + j] = (state[i] >> np.uint32(24 - 8 * j)) & np.uint32(255)


@jit
def finish(state: Words, block: Any, used: Any, length: Any, words: Words, k: Words) -> None:
    """Pad and finish a message of ``length`` bytes, whose last ``used`` bytes are in ``block``."""
    block[used] = 128
    for i in range(used + 1, 64):
        block[i] = 0
    if used > 55:
        compress(state, block, words, k)
        for i in range(64):
            block[i] = 0
    bits = np.int64(length) * 8
    for i in range(8):
        block[56 + i] = (bits >> (56 - 8 * i)) & 255
    compress(state, block, words, k)


@jit_allocating
def _hmac(data: Any, offsets: Any, inner: Words, outer: Words, k: Words, digits: Any) -> Any:
    count = offsets.size - 1
    out = np.empty(count * 64, np.uint8)
    state, words = np.empty(8, np.uint32), np.empty(64, np.uint32)
    block, digest = np.empty(64, np.uint8), np.empty(32, np.uint8)
    for row in range(count):
        for i in range(8):
            state[i] = inner[i]
        at, end = offsets[row], offsets[row + 1]
        length = 64 + end - at
        while end - at >= 64:
            for i in range(64):
                block[i] = data[at + i]
            compress(state, block, words, k)
            at += 64
        for i in range(end - at):
            block[i] = data[at + i]
        finish(state, block, end - at, length, words, k)
        put_digest(state, digest, 0)
        for i in range(8):
            state[i] = outer[i]
        for i in range(32):
            block[i] = digest[i]
        finish(state, block, 32, 96, words, k)
        put_digest(state, digest, 0)
        for i in range(32):
            out[row * 64 + 2 * i] = digits[digest[i] >> 4]
            out[row * 64 + 2 * i + 1] = digits[digest[i] & 15]
    return out


def hmac_sha256(
    key: bytes, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """Return uint8[64 n]: 64 hexadecimal digits for each value ``data[offsets[i]:offsets[i + 1]]``.
    ``key`` has at most 64 bytes."""
    assert len(key) <= _BLOCK, "a longer key is hashed first"
    padded = np.frombuffer(key.ljust(_BLOCK, b"\0"), np.uint8)
    states = []
    for pad in (0x36, 0x5C):
        state = _START.copy()
        compress(state, padded ^ np.uint8(pad), np.empty(64, np.uint32), _K)
        states.append(state)
    out: npt.NDArray[np.uint8] = _hmac(data, offsets, states[0], states[1], _K, _HEX)
    return out
