// KAIJU1 payloads.
#include "codec/kaiju1.h"
#include "payload.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return kaiju::fuzz::payload_input<kaiju::codec::kaiju1::TensorView>(data, size);
}
