#include "runtime/native/packed_matrix.h"

#include <fmt/format.h>

#include "base/error.h"
#include "codec/kaiju4.h"
#include "runtime/native/kaiju1_matrix.h"
#include "runtime/native/kaiju4_matrix.h"

namespace kaiju::runtime {

std::unique_ptr<PackedMatrix> pack_matrix(const format::TensorInfo& info, Bytes payload,
                                          Activations activations, int threads) {
    const bool kaiju4 = codec::kaiju4::index_bits_of(info.type).has_value();
    if (!kaiju4 && info.type != "KAIJU1") {
        throw Error(ErrorCode::bad_input, fmt::format("type {} has no kernel in this runtime", info.type));
    }
    (void)codec::make_tensor_decoder(info, payload);  // its header says the same as `info`
    if (kaiju4) {
        return std::make_unique<Kaiju4Matrix>(payload, activations, threads);
    }
    return std::make_unique<Kaiju1Matrix>(payload, activations, threads);
}

}  // namespace kaiju::runtime
