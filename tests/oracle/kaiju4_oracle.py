#!/usr/bin/env python3
"""Slow, independent reference for the format of docs/kaiju4.md: the oracle that tests compare against.

Written for clarity in the order of the page, NumPy only. The container and the Golay code are those of kaiju_oracle.py.

    kaiju4_oracle.py verify FILE.knot                  structure, checksums, every KAIJU4 payload as a checking reader
    kaiju4_oracle.py dump   FILE.knot TENSOR OUT.npy   dequantised KAIJU4 tensor (float32 rows x cols)
    kaiju4_oracle.py block  FILE.knot TENSOR ROW BLOCK fields and 24 coordinates of one block (JSON)
    kaiju4_oracle.py digest                            per g the SHA-256 of the group lists and of the ring sequences:
                                                       of V(m, c) for m = 0, 1, in it c = 0..15, in it all vectors, a
                                                       coordinate an i8; of the 512 sequences, a ring an u8
    kaiju4_oracle.py selftest                          the tables against their definitions
"""
import functools
import hashlib
import json
import math
import struct
import sys

import numpy as np

import kaiju_oracle as base

# ---------------------------------------------------------------- what it is (section 1)

TYPES = {"KAIJU4_1_75": 3, "KAIJU4_2": 4, "KAIJU4_2_25": 5, "KAIJU4_2_5": 6, "KAIJU4_2_75": 7,
         "KAIJU4_3": 8, "KAIJU4_3_25": 9, "KAIJU4_3_5": 10, "KAIJU4_3_75": 11, "KAIJU4_4": 12}


# ---------------------------------------------------------------- the rotation (section 2)

def span_of(cols):
    """The largest power of two, at most 512, that divides cols."""
    return max(2 ** k for k in range(10) if cols % 2 ** k == 0)


def mix(v):
    mask = 2 ** 64 - 1
    v ^= v >> 30
    v = v * 0xBF58476D1CE4E5B9 & mask
    v ^= v >> 27
    v = v * 0x94D049BB133111EB & mask
    return v ^ v >> 31


def negative_columns(seed, cols):
    """bool[cols]: whether s_j = -1."""
    words = [mix((seed + (w + 1) * 0x9E3779B97F4A7C15) % 2 ** 64) for w in range((cols + 63) // 64)]
    return np.array([bool(words[j // 64] >> j % 64 & 1) for j in range(cols)])


@functools.lru_cache(None)
def hadamard(span):
    """(-1)^popcount(i & j): H without its factor 1 / sqrt(span)."""
    return np.array([[(-1.0) ** bin(i & j).count("1") for j in range(span)] for i in range(span)])


# ---------------------------------------------------------------- the code book (section 3)

class Book:
    """lists[m, c, p]: vector p of V(m, c); costs[r] = K_r; sequences[n]: ring sequence n."""

    def __init__(self, g):
        size = 8 * 2 ** g
        z = range(-4, 4) if g <= 8 else range(-8, 8)
        # Lexicographic, x_0 slowest: x_i ascends with z_i, so a stable sort by norm leaves equal norms in that order.
        grid = np.array([(a, b, c, d) for a in z for b in z for c in z for d in z], dtype=np.int64)

        def ordered(offset):
            x = np.array(offset) + 4 * grid
            return x[np.argsort((x * x).sum(1), kind="stable")][:size]

        lowest = [ordered([2 if i < w else 0 for i in range(4)]) for w in range(5)]
        odd = ordered([1, 1, 1, 1])
        self.lists = np.empty((2, 16, size, 4), dtype=np.int64)
        for c in range(16):
            is_set = [i for i in range(4) if c >> i & 1]
            is_not = [i for i in range(4) if not c >> i & 1]
            self.lists[0, c][:, is_set + is_not] = lowest[len(is_set)]
            self.lists[1, c] = odd * [-1 if c >> i & 1 else 1 for i in range(4)]

        norms = (self.lists ** 2).sum(-1).reshape(32, 8, 2 ** g)
        self.costs = [int(norms[:, r].sum()) for r in range(8)]
        all_sequences = np.indices((8,) * 6).reshape(6, -1).T  # lexicographic, r_0 slowest
        sums = np.array(self.costs)[all_sequences].sum(1)
        self.sequences = all_sequences[np.argsort(sums, kind="stable")][:512]

    def digests(self):
        return [hashlib.sha256(table.astype(np.int8).tobytes()).hexdigest() for table in (self.lists, self.sequences)]


@functools.lru_cache(None)
def book(g):
    return Book(g)


# ---------------------------------------------------------------- blocks and the payload (sections 4 and 5)

def bit_fields(data, count, widths):
    """`count` times the fields of `widths` bits, bit 0 of byte 0 first: int64[count, len(widths)]."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").astype(np.int64)
    bits = bits[:count * sum(widths)].reshape(count, sum(widths))
    ends = np.cumsum(widths)
    return np.stack([bits[:, end - n:end] @ (1 << np.arange(n)) for n, end in zip(widths, ends)], axis=1)


class Kaiju4:
    """Checked payload of one KAIJU4 tensor. Raises ValueError with the place and the reason."""
    HEAD = struct.Struct("<4sIIIIBBHQ4f16s")  # 64 bytes

    def __init__(self, buf, type_name):
        if type_name not in TYPES:
            raise ValueError("unknown type %s" % type_name)
        if len(buf) < self.HEAD.size:
            raise ValueError("payload of %d bytes, its header has 64" % len(buf))
        magic, version, self.rows, self.cols, self.n_blocks, self.g, log2_span, _, self.seed, *mult, _ = self.HEAD.unpack_from(buf)
        self.mult = np.array(mult, dtype=np.float64)
        if magic != b"KJU4":
            raise ValueError("header, byte 0: magic %r" % magic)
        if version != 1:
            raise ValueError("header, byte 4: version %d" % version)
        if self.rows == 0 or self.cols == 0:
            raise ValueError("header, byte 8: %d rows, %d columns" % (self.rows, self.cols))
        if self.n_blocks != (self.cols + 23) // 24:
            raise ValueError("header, byte 16: %d blocks for %d columns" % (self.n_blocks, self.cols))
        if self.g != TYPES[type_name]:
            raise ValueError("header, byte 20: g is %d, %s has %d" % (self.g, type_name, TYPES[type_name]))
        self.span = span_of(self.cols)
        if 2 ** log2_span != self.span:
            raise ValueError("header, byte 21: span 2^%d, %d columns have %d" % (log2_span, self.cols, self.span))
        if not np.all(np.isfinite(self.mult)) or self.mult[0] <= 0 or np.any(np.diff(self.mult) <= 0):
            raise ValueError("header, byte 32: multipliers %s are not finite, positive, strictly ascending" % mult)
        if self.mult[3] > 2 ** 16:
            raise ValueError("header, byte 44: multiplier %r above 2^16" % mult[3])
        if self.mult[3] > 2 ** 12 * self.mult[0]:
            raise ValueError("header, byte 32: multipliers %s further apart than 2^12" % mult)
        self.row_bytes = 2 + 3 * self.n_blocks + (6 * self.g * self.n_blocks + 7) // 8
        if len(buf) != 64 + self.rows * self.row_bytes:
            raise ValueError("payload of %d bytes, its header says %d" % (len(buf), 64 + self.rows * self.row_bytes))
        self.buf = buf
        for r in range(self.rows):
            scale = self.row_scale(r)
            if not (math.isfinite(scale) and math.copysign(1, scale) > 0 and scale <= 2 ** 100):
                raise ValueError("row %d, byte %d: row_scale %r" % (r, 64 + r * self.row_bytes, scale))

    def record(self, r):
        return self.buf[64 + r * self.row_bytes:64 + (r + 1) * self.row_bytes]

    def row_scale(self, r):
        return struct.unpack("<f", b"\0\0" + self.record(r)[:2])[0]  # a bfloat16: the upper half of an f32

    def fields(self, r):
        """Of each block: m, the index of the Golay word, the number of the ring sequence, q, and six indices."""
        record, n = self.record(r), self.n_blocks
        heads = bit_fields(record[2:2 + 3 * n], n, [1, 12, 9, 2])
        return (*heads.T, bit_fields(record[2 + 3 * n:], n, [self.g] * 6))

    def coordinates(self, r):
        """x of each block: int64[n_blocks, 24], and q of each block."""
        m, word, ring, q, k = self.fields(r)
        tables = book(self.g)
        patterns = base.BITS[word].reshape(-1, 6, 4) @ [1, 2, 4, 8]
        positions = tables.sequences[ring] * 2 ** self.g + k
        return tables.lists[m[:, None], patterns, positions].reshape(-1, 24), q

    def dequantise(self):
        """float32[rows, cols], exactly as section 5 says."""
        negative = negative_columns(self.seed, self.cols)
        inverse_root = np.float64(1.0) / np.sqrt(np.float64(self.span))
        out = np.empty((self.rows, self.cols), dtype=np.float32)
        for r in range(self.rows):
            x, q = self.coordinates(r)
            rotated = (self.mult[q][:, None] * x).reshape(-1)[:self.cols]
            # Every sum is exact in f64, whatever its order. One that cancels is +0.
            t = rotated.reshape(-1, self.span) @ hadamard(self.span) + 0.0
            w = ((t * np.float64(self.row_scale(r))) * inverse_root).reshape(-1).astype(np.float32)
            out[r] = np.where(negative, -w, w)
        return out


def tensor(knot, name):
    return Kaiju4(knot.payload(name), knot.entry(name)["type"])


def describe(t, r, b):
    if not (0 <= r < t.rows and 0 <= b < t.n_blocks):
        raise ValueError("no block %d in row %d" % (b, r))
    m, word, ring, q, k = t.fields(r)
    return {"row": r, "block": b, "m": int(m[b]), "word": "%06X" % base.GOLAY[word[b]], "sequence": int(ring[b]),
            "rings": book(t.g).sequences[ring[b]].tolist(), "q": int(q[b]), "k": k[b].tolist(),
            "x": t.coordinates(r)[0][b].tolist()}


# ---------------------------------------------------------------- checks

def verify(path):
    """Checks a knot; returns the number of its entries and of the KAIJU4 tensors among them."""
    knot, found = base.Knot(path), 0
    for e in knot.toc:
        buf = knot.payload(e["name"])
        if base.xxhash and int(e["xxh3"], 16) != base.xxhash.xxh3_64_intdigest(buf):
            raise ValueError("tensor %s: checksum" % e["name"])
        if e["type"] in base.STOCK or e["type"] in ("KAIJU1", "GGUF_KV"):
            continue
        try:
            t = Kaiju4(buf, e["type"])
            if e["shape"] != [t.rows, t.cols]:
                raise ValueError("shape %s, its header says %s" % (e["shape"], [t.rows, t.cols]))
        except ValueError as error:
            raise ValueError("tensor %s: %s" % (e["name"], error)) from None
        found += 1
    return len(knot.toc), found


def selftest():
    for g in TYPES.values():
        tables, z = book(g), range(-4, 4) if g <= 8 else range(-8, 8)
        assert np.all(np.diff(tables.costs) >= 0)
        for m in (0, 1):
            for c in range(16):
                v, offset = tables.lists[m, c], [m + 2 * (c >> i & 1) for i in range(4)]
                assert np.all((v - offset) % 4 == 0) and len(np.unique(v, axis=0)) == 8 * 2 ** g
                assert np.all(np.diff((v * v).sum(1)) >= 0)
                assert v.min() >= 4 * z[0] and v.max() <= 4 * z[-1] + 3
                # Nothing that was left out is nearer than what was taken.
                radius = (v[-1] ** 2).sum()
                axes = [[-(1 + 4 * a) if m and c >> i & 1 else offset[i] + 4 * a for a in z] for i in range(4)]
                nearer = sum(np.count_nonzero(a * a + b * b + d * d + np.array(axes[3]) ** 2 < radius)
                             for a in axes[0] for b in axes[1] for d in axes[2])
                assert nearer <= 8 * 2 ** g, (g, m, c)
        assert [0] * 6 == list(tables.sequences[0]) and len(np.unique(tables.sequences, axis=0)) == 512
    for cols, span in ((1, 1), (24, 8), (40, 8), (71, 1), (512, 512), (576, 64), (1536, 512), (2048, 512)):
        assert span_of(cols) == span
    h = hadamard(64)
    assert np.array_equal(h @ h, 64 * np.eye(64)) and np.array_equal(h, h.T)
    assert mix(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF  # SplitMix64 of state 0, its first word
    print("ok")


# ---------------------------------------------------------------- command line

def main(argv):
    command, arguments = argv[1:2], argv[2:]
    if command == ["verify"] and len(arguments) == 1:
        print("%d entries, %d of them KAIJU4: ok" % verify(arguments[0]))
    elif command == ["dump"] and len(arguments) == 3:
        np.save(arguments[2], tensor(base.Knot(arguments[0]), arguments[1]).dequantise())
    elif command == ["block"] and len(arguments) == 4:
        print(json.dumps(describe(tensor(base.Knot(arguments[0]), arguments[1]), int(arguments[2]), int(arguments[3]))))
    elif command == ["digest"] and not arguments:
        for g in TYPES.values():
            print(g, *book(g).digests())
    elif command == ["selftest"] and not arguments:
        selftest()
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv))
    except (ValueError, OSError, StopIteration, struct.error) as err:
        print("error: %s" % (str(err) or "no such entry"))
        sys.exit(1)
