// What the fuzzers share. A reader may refuse any bytes with Error(bad_input) or Error(missing); everything
// else is a finding: another exception, another code, a sanitizer's report, a promise below that does not
// hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/bytes.h"
#include "base/error.h"

namespace kaiju::fuzz {

/// Ends the process, so that libFuzzer keeps the input.
inline void promise(bool holds) {
    if (!holds) {
        std::abort();
    }
}

/// Runs a reader on one input.
template <typename Body>
int one_input(const uint8_t* data, size_t size, Body&& body) {
    try {
        body(std::as_bytes(std::span(data, size)));
    } catch (const Error& error) {
        promise(error.code() == ErrorCode::bad_input || error.code() == ErrorCode::missing);
        promise(*error.what() != '\0');
    }
    return 0;
}

}  // namespace kaiju::fuzz

/// What libFuzzer calls; it has no header of its own.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
