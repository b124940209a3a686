#!/usr/bin/env python3
"""How the error of each form of feedback grows with the number of blocks: encodes random matrices of 1 to 64 blocks
against random covariances with --fold none, ldlq and published, prints a Markdown table of Σ e'Ŝe relative to none, and
writes the figure of docs/feedback.md.

    fold_growth.py KAIJU FIGURE.svg
"""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

import numpy
import xxhash

BLOCKS, ROWS, FOLDS = (1, 2, 4, 8, 16, 32, 64), 64, ("none", "ldlq", "published")
COLOURS = {"none": "#888888", "ldlq": "#2a7f3f", "published": "#c0392b"}


def covariance_file(path, matrix):
    """One tap as docs/covariance.md has it."""
    dim, packed = len(matrix), matrix[numpy.tril_indices(len(matrix))].astype("<f4").tobytes()
    name, metadata = b"x", b"{}"
    rest = struct.pack("<II", len(metadata), 1) + metadata
    rest += struct.pack("<H", len(name)) + name + struct.pack("<IQQ", dim, 4 * dim, xxhash.xxh3_64_intdigest(packed))
    begin = (24 + len(rest) + 63) // 64 * 64
    head = b"KCV1" + struct.pack("<IQQ", 1, begin + len(packed), xxhash.xxh3_64_intdigest(rest))
    with open(path, "wb") as file:
        file.write((head + rest).ljust(begin, b"\0") + packed)


def measure(kaiju, folder):
    random, table = numpy.random.default_rng(1), {}
    for blocks in BLOCKS:
        cols = 24 * blocks
        # A spectrum like that of real inputs, in directions that every column takes part in.
        basis = numpy.linalg.qr(random.standard_normal((cols, cols)))[0]
        spectrum = cols / numpy.arange(1, cols + 1)
        matrix, weights = f"{folder}/{blocks}.full", f"{folder}/{blocks}.npy"
        covariance_file(matrix, basis * spectrum @ basis.T)
        numpy.save(weights, random.standard_normal((ROWS, cols)).astype("<f4"))
        for fold in FOLDS:
            done = subprocess.run(
                [kaiju, "-q", "encode-tensor", "--input", weights, "--out", f"{folder}/{blocks}-{fold}.knot", "--encoder", "v3",
                 "--covariance", matrix, "--tap", "x", "--uniform", "--hi-frac", "0", "--fold", fold, "--sweeps", "0",
                 "--descent", "0", "--comp-cap", "0", "--keep-scale", "--order", "natural", "--json"],
                check=True, capture_output=True, text=True)
            table[blocks, fold] = json.loads(done.stdout)["full_excess"]
    return {key: value / table[key[0], "none"] for key, value in table.items()}


def figure(table):
    low, high = (math.log10(pick(table.values())) for pick in (min, max))
    x = lambda blocks: 70 + 430 * math.log2(blocks) / math.log2(BLOCKS[-1])
    y = lambda value: 290 - 250 * (math.log10(value) - low) / (high - low)
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 340" font-family="sans-serif" font-size="13">',
             '<rect width="640" height="340" fill="white"/>',
             '<text x="70" y="22">Σ e\'Ŝe relative to no feedback, by blocks of 24 columns (log-log)</text>']
    for blocks in BLOCKS:
        parts.append(f'<text x="{x(blocks):.0f}" y="315" text-anchor="middle">{blocks}</text>')
    for power in range(math.ceil(low), math.floor(high) + 1):
        parts.append(f'<path d="M70 {y(10**power):.1f}H500" stroke="#dddddd"/>'
                     f'<text x="62" y="{y(10**power) + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for fold in FOLDS:
        points = " ".join(f"{x(blocks):.1f},{y(table[blocks, fold]):.1f}" for blocks in BLOCKS)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[fold]}" stroke-width="2"/>'
                     f'<text x="508" y="{y(table[BLOCKS[-1], fold]) + 4:.1f}" fill="{COLOURS[fold]}">{fold}</text>')
    return "\n".join(parts + ["</svg>", ""])


def main():
    kaiju, out = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        table = measure(os.path.abspath(kaiju), folder)
    print("| blocks | " + " | ".join(FOLDS) + " |\n|---|---|---|---|")
    for blocks in BLOCKS:
        print(f"| {blocks} | " + " | ".join(f"{table[blocks, fold]:.2f}" for fold in FOLDS) + " |")
    with open(out, "w", encoding="utf-8") as file:
        file.write(figure(table))


main()
