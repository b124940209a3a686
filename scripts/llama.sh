#!/usr/bin/env bash
# Builds the pinned llama.cpp/ggml as static libraries into the cache and prints the folder they were installed to.
# A finished build is found again by the hash of everything that shaped it: the source, the flags, the compiler and
# the processor (the build is tuned for this machine, so the folder must not be reused on another kind).
set -euo pipefail
CACHE=${KAIJU_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kaiju}
VERSION=0.3.36
SHA256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
FLAGS=(-DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DGGML_CCACHE=OFF -DGGML_OPENMP=OFF -DBUILD_SHARED_LIBS=OFF
       -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF
       -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_NUMBER=0
       "-DLLAMA_BUILD_COMMIT=sdist-$VERSION")
# Without AMX: this version's kernels for it crash on small matrices (a segmentation fault with the models of the unit
# tests), and other sums for every processor would be no reference.
COMPILE=""
if g++ -march=native -dM -E -x c++ - < /dev/null | grep __AMX_INT8__ > /dev/null; then
    COMPILE=-U__AMX_INT8__
fi
# The thread sanitizer must see the threads of ggml, too. KAIJU_LLAMA_SANITIZE=thread
if [ -n "${KAIJU_LLAMA_SANITIZE:-}" ]; then
    COMPILE+=" -fsanitize=$KAIJU_LLAMA_SANITIZE"
    FLAGS+=("-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG" "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG")
fi
[ -z "$COMPILE" ] || FLAGS+=("-DCMAKE_C_FLAGS=$COMPILE" "-DCMAKE_CXX_FLAGS=$COMPILE")

stamp=$({ echo "$SHA256 ${FLAGS[*]}"; g++ --version | head -1; g++ -march=native -Q --help=target; } | sha256sum | cut -c1-16)
prefix=$CACHE/llama-$stamp
if [ ! -e "$prefix/done" ]; then
    mkdir -p "$CACHE"
    exec 9> "$CACHE/llama.lock"
    flock 9   # two checkouts on one machine build it once
fi
if [ ! -e "$prefix/done" ]; then
    work=$CACHE/llama-build-$stamp
    rm -rf "$work" && mkdir -p "$work/src" "$CACHE/downloads"
    tarball=$CACHE/downloads/llama_cpp_python-$VERSION.tar.gz
    if ! echo "$SHA256  $tarball" | sha256sum -c --quiet > /dev/null 2>&1; then
        echo "fetching llama.cpp (source distribution of llama-cpp-python $VERSION, 77 MB)" >&2
        echo "llama-cpp-python==$VERSION --hash=sha256:$SHA256" > "$work/requirements.txt"
        # pip checks the hash before anything of the archive runs; --no-binary must name the package, since ':all:'
        # would also build the build tools from source.
        python3 -m pip download -q --no-deps --no-binary llama-cpp-python --require-hashes -d "$CACHE/downloads" \
            -r "$work/requirements.txt" >&2
        echo "$SHA256  $tarball" | sha256sum -c --quiet >&2
    fi
    root=llama_cpp_python-$VERSION/vendor/llama.cpp
    tar xzf "$tarball" -C "$work/src" --strip-components=3 "$root/CMakeLists.txt" "$root/LICENSE" "$root/cmake" \
        "$root/include" "$root/src" "$root/ggml"
    mkdir -p "$work/src/vendor" && : > "$work/src/vendor/CMakeLists.txt"   # its libraries serve tools that are not built
    echo "building llama.cpp (two to five minutes on two cores, once): $work/build.log" >&2
    # The ceiling keeps ggml from taking the commit of a repository above the cache for its own.
    if ! { GIT_CEILING_DIRECTORIES=$work cmake -S "$work/src" -B "$work/build" -G Ninja "${FLAGS[@]}" \
               "-DCMAKE_INSTALL_PREFIX=$prefix" &&
           cmake --build "$work/build" && cmake --install "$work/build"; } > "$work/build.log" 2>&1; then
        tail -20 "$work/build.log" >&2
        echo "llama.sh: building llama.cpp failed; the whole log is $work/build.log" >&2
        exit 1
    fi
    cp "$work/src/LICENSE" "$prefix/LICENSE.llama.cpp"
    touch "$prefix/done"
    rm -rf "$work"
fi
echo "$prefix"
