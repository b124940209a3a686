# Everything the project links to. Debian packages, except llama.cpp/ggml, which `./run setup` builds from its pinned
# source distribution into a cache outside the checkout and names in KAIJU_LLAMA_PREFIX.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(TBB REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(hwy REQUIRED CONFIG)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

set(KAIJU_LLAMA_PREFIX "$ENV{KAIJU_LLAMA_PREFIX}" CACHE PATH "Where ./run setup installed llama.cpp")
if(NOT KAIJU_LLAMA_PREFIX)
    message(FATAL_ERROR "KAIJU_LLAMA_PREFIX is not set: build with `./run build`, or run `./run setup` and pass the folder it prints")
endif()
list(PREPEND CMAKE_PREFIX_PATH ${KAIJU_LLAMA_PREFIX})
find_package(ggml REQUIRED CONFIG PATHS ${KAIJU_LLAMA_PREFIX} NO_DEFAULT_PATH)
find_package(llama REQUIRED CONFIG PATHS ${KAIJU_LLAMA_PREFIX} NO_DEFAULT_PATH)
