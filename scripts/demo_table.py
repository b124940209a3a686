"""Prints the table of the demonstration from the answers that lie in the current folder."""
import json
import os
import pathlib
import platform


def answer(name):
    return json.loads(pathlib.Path(name + ".json").read_text(encoding="utf-8"))


def row(name, file, bits, ppl, error, kl, same_top, seconds):
    return [name, f"{os.path.getsize(file) / 1e6:.1f}", f"{bits[0]:.2f}", f"{bits[1]:.2f}",
            f"{ppl:.2f} +- {error:.2f}", kl, same_top, seconds]


def cost(measured):
    return [f"{measured['mean_kl']:.4f}", f"{100 * measured['same_top']:.1f} %"]


original, knot, knot4 = (json.loads(line) for line in pathlib.Path("ppl.jsonl").read_text(encoding="utf-8").splitlines())
weights = 8 * os.path.getsize("kaiju1.knot") / knot["file_bits"]


def seconds(name):
    return pathlib.Path(name + ".json.seconds").read_text(encoding="utf-8").strip()


rows = [
    ["", "file MB", "file bits", "linear bits", "perplexity", "mean KL", "same top", "encode s"],
    row("f16", "f16.gguf", [8 * os.path.getsize("f16.gguf") / weights, 16], knot["reference_ppl"],
        knot["reference_ppl_error"], "0", "100 %", ""),
    row("Q4_1 original", "q4_1.gguf", [original["file_bits"], original["linear_bits"]], original["ppl"],
        original["ppl_error"], *cost(original), ""),
    *(row(name, file, [found["file_bits"], found["linear_bits"]], found["ppl"], found["ppl_error"], *cost(found), seconds(log))
      for name, file, found, log in (("KAIJU1, v1", "kaiju1.knot", knot, "encode"), ("KAIJU4, 3 bits", "kaiju4.knot", knot4, "encode4"))),
]
widths = [max(len(line[column]) for line in rows) for column in range(len(rows[0]))]
print()
for line in rows:
    print("  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                    for column, (cell, width) in enumerate(zip(line, widths))).rstrip())
verdicts = ["passed" if answer(name)["pass"] else "failed" for name in ("gate", "gate4")]
print(f"\nargmax gate: KAIJU1 {verdicts[0]}, KAIJU4 {verdicts[1]}. KAIJU4 is the wire to use; KAIJU1 is the frozen baseline.")
print(f"sentence: {answer('sentence')['text']!r}")
print(f"bits: per weight; linear: of the quantised matrices, file: of everything. f16 is the truth by definition.\n"
      f"{knot['tokens']} tokens scored; {platform.machine()}, {os.cpu_count()} processors")
