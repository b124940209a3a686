#!/usr/bin/env bash
# convert_hf.sh: prints the path of llama.cpp's converter of Hugging Face folders, unpacked from the source that
# scripts/llama.sh fetched, for KAIJU_CONVERT_HF (docs/commands/ladder.md). Running it needs Python's torch, transformers
# and numpy. convert_hf.sh python: prints a folder for the front of PATH, whose python3 has them: Debian's packages (group
# convert of scripts/packages.txt) and, in an environment of its own, what Debian does not have.
set -euo pipefail
CACHE=${KAIJU_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kaiju}
VERSION=0.3.36

converter() {
    local folder=$CACHE/convert-hf-$VERSION-2 tarball work root
    if [ ! -e "$folder/convert.py" ]; then
        tarball=$CACHE/downloads/llama_cpp_python-$VERSION.tar.gz
        [ -e "$tarball" ] || { echo "convert_hf.sh: $tarball is not there: ./run setup fetches it" >&2; exit 5; }
        work=$(mktemp -d "$CACHE/convert-hf-XXXXXX")
        root=llama_cpp_python-$VERSION/vendor/llama.cpp
        tar xzf "$tarball" -C "$work" --strip-components=3 "$root/convert_hf_to_gguf.py" "$root/conversion" "$root/gguf-py"
        cat > "$work/convert.py" << 'PYTHON'
# The converter names number types that Debian's torch (1.13) does not have yet. No file that this torch opens has any.
import pathlib
import runpy
import sys

import torch

for name in ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "uint16", "uint32", "uint64"):
    if not hasattr(torch, name):
        setattr(torch, name, object())
script = pathlib.Path(__file__).with_name("convert_hf_to_gguf.py")
sys.argv[0] = str(script)
runpy.run_path(str(script), run_name="__main__")
PYTHON
        mv -T "$work" "$folder" 2> /dev/null || rm -rf "$work"
    fi
    echo "$folder/convert.py"
}

python_folder() {
    local requirements="transformers==4.46.3 --hash=sha256:a12ef6f52841fd190a3e5602145b542d03507222f2c64ebb7ee92e8788093aef
tokenizers==0.20.3 --hash=sha256:453c7769d22231960ee0e883d1005c93c68015025a5e4ae56275406d94a3c907
huggingface_hub==0.26.5 --hash=sha256:fb7386090bbe892072e64b85f7c4479fd2d65eea5f2543327c970d5169e83924
safetensors==0.4.5 --hash=sha256:a6c19feda32b931cae0acd42748a670bdf56bee6476a046af20181ad3fee4090"
    local folder work
    folder=$CACHE/convert-python-$(sha256sum <<< "$requirements" | cut -c1-16)
    if [ ! -e "$folder/done" ]; then
        /usr/bin/python3 -c 'import torch, sentencepiece' 2> /dev/null || {
            echo "convert_hf.sh: Debian's python3-torch is missing (group convert of scripts/packages.txt)" >&2
            exit 5
        }
        mkdir -p "$CACHE"
        exec 9> "$CACHE/convert-python.lock"
        flock 9
        work=$(mktemp)
        echo "$requirements" > "$work"
        /usr/bin/python3 -m venv --clear --system-site-packages "$folder"
        "$folder/bin/pip" install -q --no-deps --only-binary :all: --require-hashes -r "$work" >&2
        rm -f "$work"
        touch "$folder/done"
    fi
    echo "$folder/bin"
}

case ${1:-} in
    "") converter ;;
    python) python_folder ;;
    *) echo "convert_hf.sh: nothing, or python" >&2; exit 2 ;;
esac
