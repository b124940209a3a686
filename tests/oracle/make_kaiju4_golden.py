#!/usr/bin/env python3
"""Writes the golden files of docs/kaiju4.md: tests/golden/kaiju4.knot, kaiju4.expected.json and bad4/*.knot.

    make_kaiju4_golden.py [FOLDER]    FOLDER: instead of tests/golden

The same bytes on every run: random bits are SHAKE-256 of a label. Payloads are random bits under a legal header, and what
they decode to is computed twice, by the oracle and once more in fractions. Each bad file has one fault, inside a container
that is right, in its second tensor; the oracle must refuse it there. Needs Debian's python3-numpy and python3-xxhash.
"""
import hashlib
import json
import math
import pathlib
import struct
import sys
from fractions import Fraction

import numpy as np
import xxhash

import kaiju4_oracle as oracle


# ---------------------------------------------------------------- payloads and containers

def random_bytes(label, count):
    return hashlib.shake_256(label.encode()).digest(count)


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def next_f32(value):
    return struct.unpack("<f", struct.pack("<I", struct.unpack("<I", struct.pack("<f", value))[0] + 1))[0]


def bfloat16(value):
    """Of a value that a bfloat16 holds."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    assert bits % 65536 == 0
    return bits >> 16


MULT = [f32(0.75 * 1.15 ** k) for k in range(4)]


def payload(label, g, rows, cols, /, scales=(), mult=MULT, reserved=False, unused=False, **wrong):
    """A legal payload of random blocks. `scales`: bfloat16 bits of the first rows, the others' are random near 2^-6;
    `reserved`, `unused`: ones in the bits that readers ignore; `wrong`: other values of the header's fields."""
    n = (cols + 23) // 24
    f = dict(magic=b"KJU4", version=1, rows=rows, cols=cols, n_blocks=n, g=g, log2_span=oracle.span_of(cols).bit_length() - 1,
             seed=int.from_bytes(random_bytes(label + " seed", 8), "little"))
    f.update(wrong)
    ones = b"\xFF" * 16 if reserved else bytes(16)
    out = oracle.Kaiju4.HEAD.pack(f["magic"], f["version"], f["rows"], f["cols"], f["n_blocks"], f["g"], f["log2_span"],
                                  0xFFFF if reserved else 0, f["seed"], *mult, ones)
    bits = 6 * g * n
    for r in range(rows):
        chance = random_bytes("%s row %d" % (label, r), 2 + 3 * n + (bits + 7) // 8)
        scale = scales[r] if r < len(scales) else bfloat16(2.0 ** -6) - 64 + chance[0] % 128
        index = int.from_bytes(chance[2 + 3 * n:], "little") % 2 ** bits
        if unused:
            index += 2 ** (8 * ((bits + 7) // 8)) - 2 ** bits
        out += struct.pack("<H", scale) + chance[2:2 + 3 * n] + index.to_bytes((bits + 7) // 8, "little")
    return out


def write_knot(path, tensors):
    """tensors: (name, type, shape, payload) each, laid out as docs/knot.md says."""
    data, toc = b"", []
    for name, kind, shape, content in tensors:
        data += bytes(-len(data) % 64)
        toc.append({"name": name, "type": kind, "shape": shape, "offset": 64 + len(data), "nbytes": len(content),
                    "xxh3": "%016x" % xxhash.xxh3_64_intdigest(content)})
        data += content
    table = json.dumps(toc).encode()
    meta = json.dumps({"format": "knot", "general": {"architecture": "llama", "name": "golden"}}).encode()
    at = 64 + len(data)
    head = struct.pack("<4sIQQQQQQQ", b"KNOT", 1, at + len(table), len(meta), at, len(table), 64, at + len(table) + len(meta),
                       xxhash.xxh3_64_intdigest(table + meta))
    path.write_bytes(head + data + table + meta)


# ---------------------------------------------------------------- good files

NAME_OF = {g: name for name, g in oracle.TYPES.items()}

# Name, g, rows, columns and what is special; the name says why the tensor is there.
GOOD = [
    ("span64.weight", 3, 3, 576, {}),
    ("one_block.weight", 4, 5, 24, {"scales": [bfloat16(0.0)]}),
    ("one_column.weight", 5, 4, 1, {}),
    ("padding.weight", 6, 4, 40, {"scales": [bfloat16(1.0), bfloat16(0.0)]}),
    ("reserved_is_ignored.weight", 7, 2, 48, {"reserved": True}),
    ("odd_columns.weight", 8, 5, 71, {"scales": [0x3C23, 0x0000]}),
    ("six_unused_bits.weight", 9, 4, 72, {}),
    ("unused_bits_are_ignored.weight", 3, 2, 120, {"unused": True}),
    ("two_runs_of_512.weight", 10, 2, 1024, {}),
    ("span32.weight", 11, 3, 96, {"seed": 0}),
    ("span512.weight", 12, 3, 1536, {"seed": 2 ** 64 - 1}),
    # The largest multipliers and scale; a scale so small that weights are denormal or vanish, with their sign.
    ("largest.weight", 12, 3, 512, {"mult": [next_f32(16.0), f32(100 / 3), 65536 - 2.0 ** -8, 65536.0], "scales": [bfloat16(2.0 ** 100)]}),
    ("smallest.weight", 6, 4, 120, {"mult": [2.0 ** -149, 2.0 ** -148, 2.0 ** -138, 2.0 ** -137],
                                    "scales": [1, bfloat16(2.0 ** -10), bfloat16(1.0), bfloat16(2.0 ** 100)]}),
]


def bits_of(value):
    return "%08x" % struct.unpack("<I", struct.pack("<f", value))


def spelt_out(t, r):
    """Row r once more, one coordinate at a time in whole numbers and fractions: slower, so that a slip of the oracle shows."""
    record, n, tables = t.record(r), t.n_blocks, oracle.book(t.g)
    heads, indices = record[2:2 + 3 * n], int.from_bytes(record[2 + 3 * n:], "little")
    rotated = []
    for b in range(n):
        head = int.from_bytes(heads[3 * b:3 * b + 3], "little")
        m, word, ring, q = head & 1, oracle.base.GOLAY[head >> 1 & 4095], head >> 13 & 511, head >> 22
        for j in range(6):
            k = indices >> (6 * b + j) * t.g & 2 ** t.g - 1
            vector = tables.lists[m, word >> 4 * j & 15, int(tables.sequences[ring][j]) * 2 ** t.g + k]
            rotated += [Fraction(float(t.mult[q])) * int(x) for x in vector]
    row, inverse_root = [], 1 / math.sqrt(t.span)
    for j in range(t.cols):
        run = j // t.span * t.span
        total = sum((-1) ** bin(i & j - run).count("1") * rotated[run + i] for i in range(t.span))
        assert Fraction(float(total)) == total  # f64 holds it
        weight = np.float32(float(total) * t.row_scale(r) * inverse_root)
        row.append(-weight if oracle.mix((t.seed + (j // 64 + 1) * 0x9E3779B97F4A7C15) % 2 ** 64) >> j % 64 & 1 else weight)
    return np.array(row, dtype=np.float32)


def write_good(folder):
    tensors = [(name, NAME_OF[g], [rows, cols], payload(name, g, rows, cols, **special))
               for name, g, rows, cols, special in GOOD]
    norm = ("output_norm.weight", "F32", [3], struct.pack("<3f", 1, -2, 0.5))
    write_knot(folder / "kaiju4.knot", [*tensors, norm])
    assert oracle.verify(folder / "kaiju4.knot") == (len(GOOD) + 1, len(GOOD))
    expected = {}
    for name, kind, (rows, cols), content in tensors:
        t = oracle.Kaiju4(content, kind)
        weights = t.dequantise()
        for r in range(rows):
            assert weights[r].tobytes() == spelt_out(t, r).tobytes()
        assert np.all(np.isfinite(weights))
        places = sorted({(r, c) for r in range(rows) for c in (0, 1, cols // 2, cols - 1) if c < cols})
        expected[name] = {"type": kind, "shape": [rows, cols], "sha256": hashlib.sha256(weights.astype("<f4").tobytes()).hexdigest(),
                          "values": [[r, c, bits_of(weights[r, c])] for r, c in places],
                          "blocks": [oracle.describe(t, r, b) for r, b in sorted({(0, 0), (rows - 1, t.n_blocks - 1)})]}
    return expected


# ---------------------------------------------------------------- bad files

NAN, INF = math.nan, math.inf
G, ROWS, COLS = 6, 3, 72  # of the tensor that is at fault: 3 blocks a row, span 8


def faulty(**wrong):
    return payload("bad", G, ROWS, COLS, **wrong)


def bad_files():
    """Name -> (what the oracle's refusal says, payload, and where they are not as usual type and shape)."""
    files = {}

    def add(name, reason, content, kind=NAME_OF[G], shape=(ROWS, COLS)):
        files[name] = (reason, kind, list(shape), content)

    whole = faulty()
    add("magic", "magic", faulty(magic=b"KJU1"))
    add("version", "version 2", faulty(version=2))
    add("rows_zero", "0 rows", faulty(rows=0))
    add("cols_zero", "0 columns", faulty(cols=0))
    for n in (0, 2, 4, 2 ** 32 - 1):
        add("n_blocks_%d" % n, "%d blocks for 72 columns" % n, faulty(n_blocks=n))
    for g in (0, 2, 7, 13, 255):
        add("g_%d" % g, "g is %d" % g, faulty(g=g))
    for log2_span in (2, 4, 255):
        add("log2_span_%d" % log2_span, "span", faulty(log2_span=log2_span))
    add("log2_span_above_512", "span", payload("bad", 3, 1, 1024, log2_span=10), NAME_OF[3], (1, 1024))
    for name, mult in {"equal": [1, 2, 2, 3], "descending": [1, 2, 4, 3], "zero": [0, 1, 2, 3], "negative": [-1, 1, 2, 3],
                       "nan": [1, 2, NAN, 3], "nan_first": [NAN, 1, 2, 3], "inf": [1, 2, 3, INF]}.items():
        add("mult_" + name, "multipliers", faulty(mult=mult))
    add("mult_too_large", "above 2^16", faulty(mult=[2.0 ** 15, 2.0 ** 15 + 1, 2.0 ** 16, next_f32(2.0 ** 16)]))
    add("mult_too_far_apart", "further apart", faulty(mult=[0.5, 1, 2, next_f32(2.0 ** 11)]))
    for name, scale in {"nan": 0x7FC0, "inf": 0x7F80, "negative": 0xBC00, "negative_zero": 0x8000, "too_large": 0x7181}.items():
        add("row_scale_" + name, "row 0", faulty(scales=[scale]))
    add("row_scale_of_the_last_row", "row 2", faulty(scales=[0x3C00, 0x3C00, 0x7FC1]))
    add("one_byte_short", "payload of", whole[:-1])
    add("one_byte_long", "payload of", whole + b"\0")
    add("header_one_byte_short", "its header has 64", whole[:63])
    add("rows_missing", "payload of", whole[:64])
    most = 2 ** 32 - 1
    add("rows_4294967295", "payload of", faulty(rows=most), shape=(most, COLS))
    # A record of 8 bytes: rows * 8 is 24 in 32 bits, the length that is there.
    wraps = 3 + 7 * 2 ** 29
    add("rows_wrap_in_32_bits", "payload of", payload("bad", 4, 3, 24, rows=wraps), NAME_OF[4], (wraps, 24))
    add("cols_4294967295", "payload of", payload("bad", G, 1, COLS, cols=most, n_blocks=(most + 23) // 24, log2_span=0), shape=(1, most))
    for kind in ("KAIJU4_5", "KAIJU4", "KAIJU4_1_5", "KAIJU4_2_50"):
        add("type_" + kind, "unknown type " + kind, whole, kind)
    add("shape_other_cols", "shape", whole, shape=(ROWS, COLS - 1))  # the same number of bytes
    add("shape_one_dimension", "shape", whole, shape=(ROWS * COLS,))
    add("shape_three_dimensions", "shape", whole, shape=(1, ROWS, COLS))
    return files


def write_bad(folder):
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.knot"):
        old.unlink()
    good, refusals = ("good.weight", NAME_OF[4], [1, 24], payload("good", 4, 1, 24)), {}
    for name, (reason, *entry) in bad_files().items():
        path = folder / (name + ".knot")
        write_knot(path, [good, ("bad.weight", *entry)])
        try:
            oracle.verify(path)
        except ValueError as error:
            refusals[name] = str(error)
            assert refusals[name].startswith("tensor bad.weight: ") and reason in refusals[name], (name, refusals[name])
        else:
            raise AssertionError(name + " is not refused")
    # The same without a fault, so that each fault is what its file is refused for.
    path = folder / "none.knot"
    write_knot(path, [good, ("bad.weight", NAME_OF[G], [ROWS, COLS], faulty())])
    assert oracle.verify(path) == (2, 2)
    path.unlink()
    return refusals


def main(argv):
    folder = pathlib.Path(argv[1] if len(argv) > 1 else pathlib.Path(__file__).resolve().parent.parent / "golden")
    expected = {"tables": {str(g): dict(zip(("lists", "sequences"), oracle.book(g).digests())) for g in oracle.TYPES.values()},
                "tensors": write_good(folder), "bad4": write_bad(folder / "bad4")}
    # One tensor, table or file a line.
    lines = ["%s: {\n%s\n}" % (json.dumps(part), ",\n".join(" %s: %s" % (json.dumps(k), json.dumps(v)) for k, v in of.items()))
             for part, of in expected.items()]
    (folder / "kaiju4.expected.json").write_text("{\n%s\n}\n" % ",\n".join(lines))
    print("%d good tensors, %d bad files" % (len(expected["tensors"]), len(expected["bad4"])))


if __name__ == "__main__":
    main(sys.argv)
