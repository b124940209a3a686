#!/usr/bin/env python3
"""What each ingredient of the encoders buys: encodes one model in several ways, measures them all against one run of
the f16 reference, and prints a Markdown table. Called by `./run bench quality`; finished files are kept and not made
again.

    quality.py --kaiju BIN --model f16.gguf --imatrix im.gguf --sketch S.sket --covariance S.full
               --sensitivity S.json --text wiki.test.raw --work FOLDER [--chunks 40] [--rows REGEX] [--row "NAME=OPTIONS" ...]
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import time

SKETCH, FULL = "--sketch {sketch}", "--covariance {covariance}"
PLAIN = "--sweeps 0 --descent 0 --keep-scale"
SENSITIVITY = "--sensitivity {sensitivity}"
FULL4 = FULL + " --step-search 4"
V3 = "--encoder v3 "
KAIJU4 = "--wire KAIJU4 "
ROWS = {
    "v1": "--encoder v1",
    "no feedback, 1 step": f"{V3}{SKETCH} --fold none {PLAIN} --step-search 1 --codebook leech",
    "no feedback, 4 steps": f"{V3}{SKETCH} --fold none {PLAIN} --codebook leech",
    "published feedback": f"{V3}{SKETCH} --fold published {PLAIN} --codebook leech",
    "feedback, sketch": f"{V3}{SKETCH} {PLAIN} --codebook leech",
    "feedback, full": f"{V3}{FULL4} {PLAIN} --codebook leech",
    "+ any parity": f"{V3}{FULL4} {PLAIN}",
    "+ descent in the metric": f"{V3}{FULL4} --sweeps 0 --keep-scale",
    "+ row scales refitted": f"{V3}{FULL4} --sweeps 0",
    "+ five steps": f"{V3}{FULL} --sweeps 0",
    "v3, sketch": f"{V3}{SKETCH}",
    "v3, full": f"{V3}{FULL}",
    "v3, sketch, side-bands by sensitivity": f"{V3}{SKETCH} {SENSITIVITY}",
    "v3, full, side-bands by sensitivity": f"{V3}{FULL} {SENSITIVITY}",
    "KAIJU4, 2.5 bits, full": f"{KAIJU4}{FULL} --bits 2.5",
    "KAIJU4, 3 bits, sketch": f"{KAIJU4}{SKETCH} --bits 3",
    "KAIJU4, 3 bits, full, no sweep": f"{KAIJU4}{FULL} --bits 3 --sweeps 0",
    "KAIJU4, 3 bits, full": f"{KAIJU4}{FULL} --bits 3",
    "KAIJU4, 3 bits, full, by sensitivity": f"{KAIJU4}{FULL} --bits 3 {SENSITIVITY}",
    "KAIJU4, 4 bits, full": f"{KAIJU4}{FULL} --bits 4",
}


def run(command, **keywords):
    return subprocess.run(command, check=True, text=True, **keywords)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("kaiju", "model", "imatrix", "sketch", "covariance", "sensitivity", "text", "work"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--chunks", default="40")
    parser.add_argument("--threads", default="0")
    parser.add_argument("--rows", default="", help="only rows whose name matches")
    parser.add_argument("--row", action="append", default=[], metavar="NAME=OPTIONS", help="another row")
    arguments = parser.parse_args()
    os.makedirs(arguments.work, exist_ok=True)
    rows = {name: options for name, options in ROWS.items() if re.search(arguments.rows, name)}
    rows.update(text.split("=", 1) for text in arguments.row)

    table = []
    for name, options in rows.items():
        stem = os.path.join(arguments.work, re.sub(r"[^a-z0-9]+", "-", name.lower()))
        if not os.path.exists(stem + ".json"):
            began = time.time()
            done = subprocess.run(
                [arguments.kaiju, "-q", "encode", "--model", arguments.model, "--imatrix", arguments.imatrix, "--out",
                 stem + ".knot", "--threads", arguments.threads, "--resume", "--json", "--telemetry",
                 stem + ".telemetry.json",
                 *shlex.split(options.format(sketch=arguments.sketch, covariance=arguments.covariance,
                                              sensitivity=arguments.sensitivity))],
                text=True, stdout=subprocess.PIPE, check=False)
            if done.returncode > 1:
                raise SystemExit(f"{name}: encode failed with {done.returncode}")
            answer = json.loads(done.stdout) | {"wall": time.time() - began}
            with open(stem + ".json", "w", encoding="utf-8") as file:
                json.dump(answer, file)
        with open(stem + ".json", encoding="utf-8") as file:
            table.append({"name": name, "knot": stem + ".knot", "encode": json.load(file)})

    missing = [row for row in table if not os.path.exists(row["knot"] + ".ppl.json")]
    for begin in range(0, len(missing), 4):  # some at a time: all models of a run are in memory
        group = missing[begin:begin + 4]
        models = [part for row in group for part in ("--model", row["knot"])]
        answers = run([arguments.kaiju, "-q", "ppl", *models, "--reference", arguments.model, "--text", arguments.text,
                       "--ctx", "512", "--chunks", arguments.chunks, "--threads", arguments.threads, "--engine",
                       "llama", "--json"], stdout=subprocess.PIPE).stdout.splitlines()
        for row, answer in zip(group, answers):
            with open(row["knot"] + ".ppl.json", "w", encoding="utf-8") as file:
                file.write(answer)

    print("| encoder | linear bits | file bits | ppl | mean KL | same top | relative full excess | encode s |")
    print("|---|---|---|---|---|---|---|---|")
    for row in table:
        with open(row["knot"] + ".ppl.json", encoding="utf-8") as file:
            ppl = json.load(file)
        full = row["encode"].get("relative_full_excess")
        print(f"| {row['name']} | {ppl['linear_bits']:.3f} | {ppl['file_bits']:.3f} | {ppl['ppl']:.2f} | "
              f"{ppl['mean_kl']:.4f} | {100 * ppl['same_top']:.1f} % | {'' if full is None else f'{full:.5f}'} | "
              f"{row['encode']['wall']:.1f} |")


main()
