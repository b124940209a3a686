// KAIJU4 payloads.
#include "codec/kaiju4.h"
#include "payload.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return kaiju::fuzz::payload_input<kaiju::codec::kaiju4::TensorView>(data, size);
}
