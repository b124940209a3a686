#!/usr/bin/env python3
"""The figure and the table of docs/kaiju4-design.md: distortion of KAIJU4's code books on a Gaussian source over the bound.

    kaiju lattice shells --index-bits 3,4,5,6,7,8,9,10,11,12 --blocks 10000 --exhaustive 1000 --json | shell_sweep.py FIGURE.svg
"""
import json
import math
import sys

# Mean squared errors of other wires on a Gaussian, from docs/kaiju4-design.md.
OTHERS = {"KAIJU1": (2.5, 0.0772), "IQ2_S": (2.56, 0.055), "IQ3_S": (3.44, 0.019)}


def figure(rows):
    x = lambda bits: 60 + 520 * (bits - 1.5) / 2.75
    y = lambda gap: 300 - 68 * gap
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 620 350" font-family="sans-serif" font-size="13">',
             '<rect width="620" height="350" fill="white"/>']
    for gap in (0, 1, 2, 3, 4):
        parts.append(f'<line x1="60" x2="600" y1="{y(gap):.0f}" y2="{y(gap):.0f}" stroke="#ddd"/>'
                     f'<text x="52" y="{y(gap) + 4:.0f}" text-anchor="end">{gap:g}</text>')
    for bits in (2, 2.5, 3, 3.5, 4):
        parts.append(f'<text x="{x(bits):.0f}" y="320" text-anchor="middle">{bits:g}</text>')
    parts.append('<text x="330" y="342" text-anchor="middle">bits a weight, choice of the step included</text>'
                 '<text x="16" y="170" transform="rotate(-90 16 170)" text-anchor="middle">dB over the bound</text>')
    line = " ".join(f'{x(row["bits"]):.1f},{y(row["gap_db"]):.1f}' for row in rows)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#2a7f3f" stroke-width="2"/>')
    parts += [f'<circle cx="{x(row["bits"]):.1f}" cy="{y(row["gap_db"]):.1f}" r="4" fill="#2a7f3f"/>' for row in rows]
    parts.append(f'<text x="{x(3.6):.0f}" y="{y(0.6):.0f}" fill="#2a7f3f">KAIJU4</text>')
    for name, (bits, mse) in OTHERS.items():
        gap = 10 * math.log10(mse / 4 ** -bits)
        parts.append(f'<circle cx="{x(bits):.1f}" cy="{y(gap):.1f}" r="4" fill="#c0392b"/>'
                     f'<text x="{x(bits) + 8:.0f}" y="{y(gap) + 4:.0f}">{name}</text>')
    return "\n".join(parts) + "\n</svg>\n"


def main():
    rows = json.load(sys.stdin)["results"]
    print("| g | bits a weight | mean squared error | over the bound | best step | nearest point inside | search over exact |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        exact = f'{row["gap_to_exhaustive_db"]:.3f} dB' if "gap_to_exhaustive_db" in row else "-"
        print(f'| {row["index_bits"]} | {row["bits"]:g} | {row["mse"]:.5f} | {row["gap_db"]:.2f} dB | {row["step"]:.3f} '
              f'| {100 * row["inside"]:.0f} % | {exact} |')
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(figure(rows))


main()
