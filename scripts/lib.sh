# shellcheck shell=bash
# What ./run and the scripts beside it share. To be sourced from the root of the checkout.

# Downloads, built dependencies and lint results: outside the checkout, found again by content.
export KAIJU_CACHE=${KAIJU_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kaiju}

say() { printf '\n== %s\n' "$*"; }
die() {
    local code=$1
    shift
    printf 'run: %s\n' "$*" >&2
    exit "$code"
}

# ensure_packages GROUP...: installs what is missing of these groups of scripts/packages.txt. Without root it prints
# the one command that an administrator has to run, and exits with 5 (a prerequisite is missing).
ensure_packages() {
    local wanted=() missing=() name
    mapfile -t wanted < <(for group in "$@"; do sed -n "s/^$group //p" scripts/packages.txt; done)
    command -v dpkg-query > /dev/null || die 5 "this set-up knows Debian 12 only; install what these stand for: ${wanted[*]}"
    for name in "${wanted[@]}"; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2> /dev/null)" = installed ] || missing+=("$name")
    done
    [ ${#missing[@]} -eq 0 ] && return
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if sudo -n true 2> /dev/null; then
            as_root=(sudo -n)
        else
            die 5 "Debian packages are missing and this is not root. An administrator has to run:
apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
        fi
    fi
    say "installing Debian packages: ${missing[*]}"
    local log
    log=$(mktemp)
    if ! { "${as_root[@]}" apt-get update &&
           "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
               apt-get install -y --no-install-recommends "${missing[@]}"; } > "$log" 2>&1; then
        tail -20 "$log" >&2
        die 5 "apt-get failed; the whole log is $log"
    fi
    rm -f "$log"
}

# configure_preset PRESET: build/PRESET with the pinned llama.cpp, through ccache.
configure_preset() {
    local sanitize=""
    [ "$1" = tsan ] && sanitize=thread
    KAIJU_LLAMA_PREFIX=$(KAIJU_LLAMA_SANITIZE=$sanitize scripts/llama.sh)
    export KAIJU_LLAMA_PREFIX
    # Paths relative to the checkout let another checkout on this machine take the same objects from the cache.
    export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
    local log
    log=$(mktemp)
    if ! cmake --preset "$1" -DKAIJU_LLAMA_PREFIX="$KAIJU_LLAMA_PREFIX" -DCMAKE_C_COMPILER_LAUNCHER=ccache \
        -DCMAKE_CXX_COMPILER_LAUNCHER=ccache > "$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        die 1 "cmake --preset $1 failed"
    fi
    rm -f "$log"
}

# build_preset PRESET [TARGET...]
build_preset() {
    local preset=$1
    shift
    configure_preset "$preset"
    cmake --build "build/$preset" ${1:+--target "$@"}
}
