#include "codec/tensor_decoder.h"

#include <fmt/format.h>

#include "codec/kaiju1.h"
#include "codec/kaiju4.h"
#include "codec/stock.h"

namespace kaiju::codec {

namespace {

constexpr std::string_view kKaiju1 = "KAIJU1";

template <typename View>
std::unique_ptr<TensorDecoder> make_view(const format::TensorInfo& info, Bytes payload) {
    auto view = std::make_unique<View>(payload);
    const auto& layout = view->layout();
    if (info.shape.size() != 2 || info.shape[0] != layout.rows || info.shape[1] != layout.cols) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("shape is not the {} x {} that the payload's header gives", layout.rows,
                                layout.cols));
    }
    return view;
}

std::unique_ptr<TensorDecoder> make_kaiju4(const format::TensorInfo& info, Bytes payload, int index_bits) {
    auto decoder = make_view<kaiju4::TensorView>(info, payload);
    const int own = static_cast<const kaiju4::TensorView&>(*decoder).layout().index_bits;
    if (own != index_bits) {
        throw Error(ErrorCode::bad_input, fmt::format("the payload's header says {}, the type is {}",
                                                      kaiju4::type_name(own), info.type));
    }
    return decoder;
}

}  // namespace

std::unique_ptr<TensorDecoder> make_tensor_decoder(const format::TensorInfo& info, Bytes payload) {
    if (info.type == kKaiju1) {
        return make_view<kaiju1::TensorView>(info, payload);
    }
    if (const auto index_bits = kaiju4::index_bits_of(info.type)) {
        return make_kaiju4(info, payload, *index_bits);
    }
    return make_stock_decoder(info, payload);
}

bool is_kaiju_type(std::string_view type) {
    return type == kKaiju1 || kaiju4::index_bits_of(type).has_value();
}

}  // namespace kaiju::codec
