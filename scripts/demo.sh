#!/usr/bin/env bash
# demo.sh: quantises SmolLM2-135M-Instruct end to end and prints what it cost. Called by ./run demo.
#
# Every finished step leaves a file in build/demo and is not done again; remove the folder to start over. All outputs
# of kaiju appear whole or not at all, so a file that is there is finished.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source scripts/lib.sh
# shellcheck source=scripts/steps.sh
source scripts/steps.sh

DEMO=build/demo
HANDBOOK=/usr/share/doc/debian-handbook/html/en-US
PROMPT="The capital of France is"
CALIBRATION_CHUNKS=24   # 12,288 tokens: more improve the result little on a model this small, and cost time
EVALUATION_CHUNKS=40
kaiju=$PWD/build/release/bin/kaiju

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

make_texts() {
    python3 "$ROOT/scripts/handbook.py" "$HANDBOOK" calibration.part evaluation.part
    mv evaluation.part evaluation.txt
    mv calibration.part calibration.txt
}

verify_both() {
    answer verify.json "$kaiju" knot verify kaiju1.knot --json
    answer verify4.json "$kaiju" knot verify kaiju4.knot --json
}

ROOT=$PWD
mkdir -p "$DEMO"
cd "$DEMO"
began=$SECONDS

step "fetch SmolLM2-135M-Instruct (Q4_1, 98 MB, Apache-2.0)" q4_1.gguf fetch_smollm2 q4_1.gguf
step "make texts from Debian's handbook, calibration and evaluation share no page" calibration.txt make_texts
step "dequantise to f16: the truth that everything is compared with" f16.gguf \
    "$kaiju" f16 --model q4_1.gguf --out f16.gguf
step "measure how inputs hang together (their covariances over $CALIBRATION_CHUNKS chunks of 512 tokens)" covariance.full \
    "$kaiju" capture --model f16.gguf --text calibration.txt --out covariance.full --full --stride 1 \
    --max-tokens $((512 * CALIBRATION_CHUNKS))
step "read off them which inputs matter" importance.gguf \
    "$kaiju" imatrix --model f16.gguf --covariance covariance.full --out importance.gguf
step "mint the argmax gate: what f16 says after \"$PROMPT\"" qspec.json \
    "$kaiju" gate mint --model f16.gguf --prompt "$PROMPT" --id smollm2-135m-instruct --out qspec.json
step "encode with KAIJU1" encode.json \
    answer encode.json "$kaiju" encode --model f16.gguf --imatrix importance.gguf --base q4_1.gguf --out kaiju1.knot \
    --encoder v1 --telemetry telemetry.json --resume --json
step "encode with KAIJU4 at 3 bits, errors fed back" encode4.json \
    answer encode4.json "$kaiju" encode --model f16.gguf --imatrix importance.gguf --base q4_1.gguf --out kaiju4.knot \
    --wire KAIJU4 --bits 3 --covariance covariance.full --telemetry telemetry4.json --resume --json
step "verify every block, scale and checksum of the knots" verify4.json verify_both
step "export to a GGUF that any llama.cpp runs" kaiju4-f16.gguf \
    "$kaiju" knot to-gguf kaiju4.knot --out kaiju4-f16.gguf --type f16
step "argmax gate on the KAIJU1 knot" gate.json \
    answer gate.json "$kaiju" gate run --qspec qspec.json --model kaiju1.knot --json
step "argmax gate on the KAIJU4 knot" gate4.json \
    answer gate4.json "$kaiju" gate run --qspec qspec.json --model kaiju4.knot --json
step "perplexity and divergence of the Q4_1 original and the knots ($EVALUATION_CHUNKS chunks)" ppl.jsonl \
    answer ppl.jsonl "$kaiju" ppl --model q4_1.gguf --model kaiju1.knot --model kaiju4.knot --reference f16.gguf --text evaluation.txt \
    --ctx 512 --chunks "$EVALUATION_CHUNKS" --engine llama --json
step "let the KAIJU4 knot write" sentence.json \
    answer sentence.json "$kaiju" generate --model kaiju4.knot --prompt "$PROMPT" --tokens 24 --temp 0 --json

python3 "$ROOT/scripts/demo_table.py"
printf '\nThis run took %d s; everything is in %s.\n' "$((SECONDS - began))" "$DEMO"
