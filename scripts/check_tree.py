"""What a reader would trip over in the files named on standard input: maps that name files long gone, links that lead
nowhere, files too long to read, commands without a page, work left undone, paths of one person's machine."""
import glob
import os
import pathlib
import re
import sys

LIMIT = 800
NOT_READ = re.compile(r"(^tests/golden/|^fuzz/corpus/|^LICENSE$|\.jsonl?$)")
TOP = "src|tests|bench|docs|include|scripts|fuzz|cmake|tools"
NAMED = re.compile(rf"`((?:{TOP})/[A-Za-z0-9_./-]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
UNDONE = re.compile(r"\b(T[O]DO|F[I]XME|X[X]X)\b|/(?:h[o]me|r[o]ot)/[a-z]")
PAGE = re.compile(r"\b(docs/[a-z0-9/-]+\.md)\b")
ADD_COMMAND = re.compile(r'add_(?:command|group)\(\s*app,\s*(?:session,\s*)?"([a-z0-9-]+)"')

faults = []
names = sys.stdin.read().split()
pages = {pathlib.Path(name).stem for name in names if name.startswith("docs/commands/")}
for name in names:
    path = pathlib.Path(name)
    if not NOT_READ.search(name):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            faults.append(f"{name}: a binary file outside tests/golden and fuzz/corpus")
            continue
        lines = text.count("\n")
        if lines > LIMIT:
            faults.append(f"{name}: {lines} lines, over {LIMIT}")
        for number, line in enumerate(text.splitlines(), 1):
            if found := UNDONE.search(line):
                faults.append(f"{name}:{number}: {found.group()}")
        if path.suffix == ".md":
            for target in NAMED.findall(text):
                if not os.path.exists(target) and not glob.glob(target + ".*"):  # a name may stand for .h and .cpp
                    faults.append(f"{name}: names {target}, which is not there")
            for target in LINK.findall(text):
                if "://" not in target and not (path.parent / target).exists():
                    faults.append(f"{name}: links to {target}, which is not there")
        if path.suffix in (".h", ".cpp", ".py", ".sh"):
            for target in PAGE.findall(text):
                if not os.path.exists(target):
                    faults.append(f"{name}: refers to {target}, which is not there")
        if name.startswith("src/cli/"):
            for command in ADD_COMMAND.findall(text):
                if command not in pages:
                    faults.append(f"{name}: the command {command} has no page docs/commands/{command}.md")
print("\n".join(faults) if faults else f"{len(names)} files")
sys.exit(1 if faults else 0)
