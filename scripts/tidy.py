"""clang-tidy over the translation units named on standard input; only those whose inputs have changed.

usage: tidy.py BUILD_FOLDER CHECKS < files       CHECKS as for clang-tidy --checks, on top of .clang-tidy; may be empty

A unit that passed is remembered by the hash of everything of this project that went into it: its own text, every
project header it reaches, the compiler's flags, the configuration and the version of clang-tidy. The record lies in
the cache folder, so a fresh clone of known text is quick too. System headers are taken as part of the tool's version.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
ROOTS = [pathlib.Path(root) for root in ("src", "tests", "include")]


def reached(file, seen):
    """Adds `file` and every project header that it includes, at any depth, to `seen`."""
    if file in seen:
        return
    seen.add(file)
    for name in INCLUDE.findall(file.read_text(encoding="utf-8")):
        for root in [file.parent, *ROOTS]:
            candidate = root / name
            if candidate.is_file():
                reached(pathlib.Path(os.path.normpath(candidate)), seen)
                break


def main():
    build, checks = pathlib.Path(sys.argv[1]), sys.argv[2]
    here = str(pathlib.Path.cwd())
    cache = pathlib.Path(os.environ["KAIJU_CACHE"]) / "tidy"
    cache.mkdir(parents=True, exist_ok=True)
    tool = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
    tool += pathlib.Path(".clang-tidy").read_text(encoding="utf-8") + checks
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        file = os.path.relpath(os.path.join(entry["directory"], entry["file"]))
        commands[file] = entry["command"].replace(here, ".")

    def check(name):
        """None if the unit is clean, else what clang-tidy said."""
        seen = set()
        reached(pathlib.Path(name), seen)
        digest = hashlib.sha256((tool + commands[name]).encode())
        for file in sorted(seen):
            digest.update(str(file).encode() + b"\0" + file.read_bytes())
        record = cache / digest.hexdigest()
        if record.exists():
            record.touch()
            return None
        run = subprocess.run(["clang-tidy", "-p", str(build), "--quiet", "--checks=" + checks,
                              "--extra-arg=-Wno-unknown-warning-option", name], capture_output=True, text=True)
        if run.returncode != 0:
            return run.stdout + run.stderr
        record.touch()
        return None

    names = sorted(set(sys.stdin.read().split()))
    unknown = [name for name in names if name not in commands]
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for name, said in zip(names, pool.map(lambda one: None if one in unknown else check(one), names)):
            if said is not None:
                failures += 1
                print(f"{name}:\n{said}", flush=True)
    for name in unknown:
        print(f"{name}: no target compiles this file")
    print(f"{len(names) - failures - len(unknown)} of {len(names)} translation units are clean")
    return 1 if failures or unknown else 0


sys.exit(main())
