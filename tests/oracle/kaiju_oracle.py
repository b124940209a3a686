#!/usr/bin/env python3
"""Slow, independent reference for the formats of docs/knot.md, docs/kaiju1.md and docs/sket.md: the oracle that tests compare against.

Written for clarity in the order of the specifications, NumPy only, double precision throughout.

    kaiju_oracle.py verify FILE.knot            structure, checksums, rows decodable (all rows of small tensors, 16 of large ones)
    kaiju_oracle.py dump   FILE.knot TENSOR OUT.npy   dequantised KAIJU1 tensor (float32 rows x cols)
    kaiju_oracle.py sket   FILE.sket            entries, shapes, orthonormality and diagonal checks
    kaiju_oracle.py points N SEED               N uniform points in [0,8)^24 with exact squared distances (JSON lines)
    kaiju_oracle.py selftest                    the constants of the Golay code and the lattice
"""
import json
import struct
import sys

import numpy as np

try:
    import xxhash
except ImportError:
    xxhash = None
    print("checksums are not verified: the Python package xxhash is not installed", file=sys.stderr)

# ---------------------------------------------------------------- Golay code (docs/kaiju1.md, section 2)

def _bits(*supports):
    return [sum(1 << i for i in s) for s in supports]


def _span(generators):
    words = [0]
    for g in generators:
        words += [w ^ g for w in words]
    return words


def golay_codewords():
    """The 4096 words of the extended binary Golay code in Turyn form, ascending; bit i = coordinate i."""
    h = _span(_bits((0, 1, 2, 3), (0, 1, 4, 5), (0, 2, 4, 6), range(8)))
    t = _span(_bits((0, 1, 2, 5), (0, 1, 3, 7), (0, 2, 3, 6)))
    words = {(a ^ x) | (b ^ x) << 8 | (a ^ b ^ e ^ x) << 16 for a in h for b in h for e in (0, 255) for x in t}
    words = sorted(words)
    assert len(words) == 4096
    return words


GOLAY = golay_codewords()
BITS = np.array([[w >> i & 1 for i in range(24)] for w in GOLAY], dtype=np.int64)  # 4096 x 24


# ---------------------------------------------------------------- the lattice (section 3)

def is_leech_point(x):
    """x: 24 integers in Conway coordinates (minimal squared norm 32)."""
    x = np.asarray(x, dtype=np.int64)
    m = int(x[0]) & 1
    if np.any((x & 1) != m):
        return False
    c = ((x - m) >> 1) & 1
    word = int(sum(int(b) << i for i, b in enumerate(c)))
    if word not in _GOLAY_SET:
        return False
    return int(x.sum()) % 8 == (4 if m else 0)


_GOLAY_SET = set(GOLAY)


def nearest_leech(y):
    """Exhaustive maximum-likelihood decoding: all 2 x 4096 cosets with parity repair. Returns (point, squared distance)."""
    y = np.asarray(y, dtype=np.float64)
    best, best_d = None, np.inf
    for m in (0, 1):
        k, pen, cost = [], [], []
        for c in (0, 1):
            t = (y - (m + 2 * c)) / 4.0
            kc = np.floor(t + 0.5)
            e = t - kc
            k.append(kc.astype(np.int64))
            cost.append(16 * e * e)
            pen.append(16 * ((1 - np.abs(e)) ** 2 - e * e))
        total = np.where(BITS == 1, cost[1], cost[0]).sum(1)
        odd = (np.where(BITS == 1, k[1], k[0]).sum(1) & 1) != m
        total = total + np.where(odd, np.where(BITS == 1, pen[1], pen[0]).min(1), 0.0)
        i = int(np.argmin(total))
        if total[i] < best_d - 1e-12:
            c = BITS[i]
            q = np.where(c == 1, k[1], k[0])
            if odd[i]:
                p = np.where(c == 1, pen[1], pen[0])
                j = int(np.argmin(p))
                q[j] += 1 if (y[j] - (m + 2 * c[j])) / 4.0 - q[j] > 0 else -1
            best = m + 2 * c + 4 * q
            best_d = float(((y - best) ** 2).sum())
    return best, best_d


# ---------------------------------------------------------------- KAIJU1 blocks and tensors (sections 4 and 5)

_TRITS = np.array([[v // 3 ** j % 3 - 1 for j in range(5)] for v in range(243)] + [[0] * 5] * 13, dtype=np.int64)


def decode_block(code):
    """Seven bytes -> 24 integers. Raises ValueError on a trit byte that no encoder writes."""
    m = code[0] & 1
    cw = (code[0] >> 1) | ((code[1] & 0x1F) << 7)
    flip = code[1] >> 7
    if any(b > 242 for b in code[2:6]) or code[6] > 80:
        raise ValueError("invalid trit byte")
    z = np.concatenate([_TRITS[b] for b in code[2:7]])[:24]
    x = m + 2 * BITS[cw] + 4 * z
    return -x if flip else x


def encode_block(m, cw, z, flip, watermark=0):
    """Inverse of decode_block for given fields (it does not search)."""
    out = bytearray(7)
    out[0] = (m & 1) | (cw & 0x7F) << 1
    out[1] = cw >> 7 | (watermark & 1) << 6 | (flip & 1) << 7
    for k in range(5):
        out[2 + k] = sum((int(z[5 * k + j]) + 1) * 3 ** j for j in range(min(5, 24 - 5 * k)))
    return bytes(out)


class Kaiju1:
    """Parsed payload of one KAIJU1 tensor."""
    HEAD = struct.Struct("<4sIIIIIBB6x16f32x")

    def __init__(self, buf):
        if len(buf) < self.HEAD.size:
            raise ValueError("payload shorter than its header")
        f = self.HEAD.unpack_from(buf)
        magic, version, self.rows, self.cols, self.n_hi, self.n_blocks, self.perm_kind, index_bytes = f[:8]
        self.mult = np.array(f[8:24], dtype=np.float64)
        if magic != b"KJU1" or version != 1:
            raise ValueError("not a KAIJU1 version 1 payload")
        if self.n_hi + 24 * self.n_blocks != self.cols or self.rows == 0 or self.cols == 0:
            raise ValueError("columns do not add up")
        if index_bytes != (2 if self.cols <= 65536 else 4) or self.perm_kind not in (0, 1):
            raise ValueError("bad column index kind")
        if not np.all(np.isfinite(self.mult)) or self.mult[0] <= 0 or np.any(np.diff(self.mult) <= 0):
            raise ValueError("multipliers are not finite, positive and ascending")
        count = self.n_hi if self.perm_kind == 0 else self.cols
        pos = self.HEAD.size
        idx = np.frombuffer(buf, dtype="<u2" if index_bytes == 2 else "<u4", count=count, offset=pos).astype(np.int64)
        pos += count * index_bytes
        if self.perm_kind == 0:
            bulk = np.setdiff1d(np.arange(self.cols), idx)
            if np.any(np.diff(idx) <= 0):
                raise ValueError("side-band columns not strictly ascending")
            self.perm = np.concatenate([idx, bulk])
        else:
            self.perm = idx
        if not np.array_equal(np.sort(self.perm), np.arange(self.cols)):
            raise ValueError("columns are not a permutation")
        self.row_bytes = 8 + self.n_hi + (self.n_blocks + 1) // 2 + 7 * self.n_blocks
        if len(buf) != pos + self.row_bytes * self.rows:
            raise ValueError("payload length does not match its header")
        self.buf, self.pos = buf, pos

    def row(self, r):
        """One dequantised row, float64[cols], in the tensor's own column order."""
        b = self.buf[self.pos + r * self.row_bytes: self.pos + (r + 1) * self.row_bytes]
        row_scale, hi_scale = struct.unpack_from("<ff", b)
        if not (np.isfinite(row_scale) and np.isfinite(hi_scale) and row_scale >= 0 and hi_scale >= 0):
            raise ValueError("bad scale in row %d" % r)
        hi = np.frombuffer(b, dtype=np.int8, count=self.n_hi, offset=8) * np.float64(hi_scale)
        q = np.frombuffer(b, dtype=np.uint8, count=(self.n_blocks + 1) // 2, offset=8 + self.n_hi)
        codes = b[8 + self.n_hi + len(q):]
        vals = [hi]
        for k in range(self.n_blocks):
            step = row_scale * self.mult[(q[k // 2] >> (4 * (k & 1))) & 15]
            vals.append(step * decode_block(codes[7 * k: 7 * k + 7]))
        out = np.empty(self.cols)
        out[self.perm] = np.concatenate(vals)
        return out

    def watermarked(self):
        first = self.buf[self.pos + 8 + self.n_hi + (self.n_blocks + 1) // 2:]
        return bool(self.n_blocks and first[1] >> 6 & 1)

    def dequantise(self):
        return np.stack([self.row(r) for r in range(self.rows)])


# ---------------------------------------------------------------- knot container (docs/knot.md)

STOCK = set("F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ4_NL IQ4_XS "
            "TQ1_0 TQ2_0 MXFP4 I8 I16 I32 I64 F64".split())


class Knot:
    HEAD = struct.Struct("<4sIQQQQQQQ")  # 64 bytes

    def __init__(self, path):
        self.data = np.memmap(path, dtype=np.uint8, mode="r")
        if len(self.data) < self.HEAD.size:
            raise ValueError("file shorter than the header")
        magic, version, mo, ml, to, tl, do, total, check = self.HEAD.unpack(bytes(self.data[:64]))
        if magic != b"KNOT" or version != 1:
            raise ValueError("not a version 1 knot")
        if total != len(self.data):
            raise ValueError("file length %d, header says %d" % (len(self.data), total))
        if do != 64 or mo + ml > total or to + tl > total:
            raise ValueError("table of contents or metadata outside the file")
        if xxhash and xxhash.xxh3_64_intdigest(bytes(self.data[to:to + tl]) + bytes(self.data[mo:mo + ml])) != check:
            raise ValueError("checksum of the table of contents and metadata")
        self.meta = json.loads(bytes(self.data[mo:mo + ml]))
        self.toc = json.loads(bytes(self.data[to:to + tl]))
        if len({e["name"] for e in self.toc}) != len(self.toc):
            raise ValueError("duplicate name")
        spans = sorted([(e["offset"], e["nbytes"]) for e in self.toc] + [(to, tl), (mo, ml)])
        if any(a + n > b for (a, n), (b, _) in zip(spans, spans[1:])):
            raise ValueError("entries overlap")
        for e in self.toc:
            if e["offset"] % 64 or e["offset"] < 64 or e["offset"] + e["nbytes"] > total:
                raise ValueError("entry %s lies outside the file" % e["name"])

    def entry(self, name):
        return next(e for e in self.toc if e["name"] == name)

    def payload(self, name):
        e = self.entry(name)
        return bytes(self.data[e["offset"]:e["offset"] + e["nbytes"]])


# ---------------------------------------------------------------- sketches (docs/sket.md)

def read_sket(path):
    b = open(path, "rb").read()
    if b[:4] != b"KSK1":
        raise ValueError("not a sketch")
    version, n = struct.unpack_from("<IH", b, 4)
    pos = 10
    model, pos = b[pos:pos + n].decode(), pos + n
    (count,) = struct.unpack_from("<I", b, pos)
    pos += 4
    entries = {}
    for _ in range(count):
        (n,) = struct.unpack_from("<H", b, pos)
        name, pos = b[pos + 2:pos + 2 + n].decode(), pos + 2 + n
        dim, k, samples = struct.unpack_from("<IIQ", b, pos)
        pos += 16
        diag = np.frombuffer(b, "<f4", dim, pos).astype(np.float64)
        pos += 4 * dim
        if not np.all(np.isfinite(diag)) or np.any(diag < 0) or k > dim or samples < 1 or name in entries:
            raise ValueError("entry %s: bad diagonal, k, sample count or duplicate name" % name)
        lam = np.frombuffer(b, "<f4", k, pos).astype(np.float64)
        if not np.all(np.isfinite(lam)) or np.any(lam < 0) or np.any(np.diff(lam) > 0):
            raise ValueError("entry %s: bad eigenvalues" % name)
        pos += 4 * k
        u = np.frombuffer(b, "<f4", k * dim, pos).reshape(k, dim).astype(np.float64)
        pos += 4 * k * dim
        entries[name] = {"dim": dim, "k": k, "samples": samples, "diag": diag, "eigval": lam, "eigvec": u}
    if pos != len(b):
        raise ValueError("%d bytes left over" % (len(b) - pos))
    return version, model, entries


def sketch_matrix(e, eps=1e-6):
    """D_resid + U^T diag(eigval) U as a dense matrix (small dims only)."""
    low = (e["eigvec"].T * e["eigval"]) @ e["eigvec"]
    resid = np.maximum(e["diag"] - np.diag(low), eps * e["diag"].mean())
    return low + np.diag(resid)


# ---------------------------------------------------------------- command line

def main(argv):
    if len(argv) < 2:
        print(__doc__)
        return 2
    cmd = argv[1]
    if cmd == "selftest":
        w = np.bincount([bin(c).count("1") for c in GOLAY], minlength=25)
        assert [int(w[i]) for i in (0, 8, 12, 16, 24)] == [1, 759, 2576, 759, 1]
        assert is_leech_point([4, 4] + [0] * 22) and is_leech_point([-3] + [1] * 23) and not is_leech_point([4] + [0] * 23)
        p, d = nearest_leech([4.0] + [0.0] * 23)
        assert abs(d - 16) < 1e-9 and is_leech_point(p)
        rng = np.random.default_rng(1)
        ds = []
        for _ in range(200):
            p, d = nearest_leech(rng.uniform(0, 8, 24))
            assert is_leech_point(p)
            ds.append(d)
        print("normalised second moment over 200 points: %.4f" % (np.mean(ds) / 24 / 8))
    elif cmd == "points":
        rng = np.random.default_rng(int(argv[3]))
        for _ in range(int(argv[2])):
            y = rng.uniform(0, 8, 24)
            print(json.dumps({"y": [float(v) for v in y], "d2": nearest_leech(y)[1]}))
    elif cmd == "verify":
        k, n = Knot(argv[2]), 0
        for e in k.toc:
            buf = k.payload(e["name"])
            if xxhash and int(e["xxh3"], 16) != xxhash.xxh3_64_intdigest(buf):
                raise ValueError("checksum of %s" % e["name"])
            if e["type"] not in STOCK and e["type"] not in ("KAIJU1", "GGUF_KV") and not e["type"].startswith("KAIJU4"):
                raise ValueError("unknown type %s of %s" % (e["type"], e["name"]))
            if e["type"] == "KAIJU1":
                t = Kaiju1(buf)
                if [t.rows, t.cols] != e["shape"]:
                    raise ValueError("shape of %s" % e["name"])
                for r in range(t.rows) if t.rows * t.cols < 10 ** 6 else range(0, t.rows, t.rows // 16):
                    if not np.all(np.isfinite(np.float32(t.row(r)))):
                        raise ValueError("row %d of %s is not finite" % (r, e["name"]))
                n += 1
        print("%d entries, %d of them KAIJU1: ok" % (len(k.toc), n))
    elif cmd == "dump":
        np.save(argv[4], Kaiju1(Knot(argv[2]).payload(argv[3])).dequantise().astype(np.float32))
    elif cmd == "sket":
        version, model, entries = read_sket(argv[2])
        print("version", version, "model", model)
        for name, e in entries.items():
            g = e["eigvec"] @ e["eigvec"].T
            if np.abs(g - np.eye(e["k"])).max() > 1e-3:
                raise ValueError("entry %s: eigenvectors are not orthonormal" % name)
            low = (e["eigval"][:, None] * e["eigvec"] ** 2).sum(0)
            print("%-28s dim %d k %d samples %d  |UU'-I| %.1e  min(diag-low)/mean %.1e" % (
                name, e["dim"], e["k"], e["samples"], np.abs(g - np.eye(e["k"])).max(), (e["diag"] - low).min() / e["diag"].mean()))
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv))
    except (ValueError, OSError, StopIteration, struct.error) as err:
        print("error: %s" % (err or "no such entry"))
        sys.exit(1)
