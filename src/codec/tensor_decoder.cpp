#include "codec/tensor_decoder.h"

#include <fmt/format.h>

#include "codec/kaiju1.h"
#include "codec/stock.h"

namespace kaiju::codec {

namespace {

constexpr std::string_view kKaiju1 = "KAIJU1";

std::unique_ptr<TensorDecoder> make_kaiju1(const format::TensorInfo& info, Bytes payload) {
    auto view = std::make_unique<kaiju1::TensorView>(payload);
    const kaiju1::Layout& layout = view->layout();
    if (info.shape.size() != 2 || info.shape[0] != layout.rows || info.shape[1] != layout.cols) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("shape is not the {} x {} that the payload's header gives", layout.rows,
                                layout.cols));
    }
    return view;
}

}  // namespace

std::unique_ptr<TensorDecoder> make_tensor_decoder(const format::TensorInfo& info, Bytes payload) {
    return info.type == kKaiju1 ? make_kaiju1(info, payload) : make_stock_decoder(info, payload);
}

bool is_kaiju_type(std::string_view type) {
    return type == kKaiju1;
}

}  // namespace kaiju::codec
