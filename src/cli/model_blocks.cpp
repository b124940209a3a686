// Blocks of real weights, for what measures and proves the searches.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/lattice_commands.h"
#include "codec/tensor_decoder.h"
#include "format/model_file.h"
#include "lattice/decoder.h"

namespace kaiju::cli {

using lattice::kDimension;

std::vector<float> model_blocks(const std::string& path, size_t wanted) {
    const auto model = format::ModelFile::open(path);
    const auto tensors = model->tensors();
    uint64_t total = 0;
    const auto usable = [](const format::TensorInfo& info) {
        return info.shape.size() == 2 && info.cols() >= kDimension;
    };
    for (const auto& info : tensors) {
        total += usable(info) ? info.rows() * (info.cols() / kDimension) : 0;
    }
    if (total == 0) {
        throw Error(ErrorCode::bad_input, fmt::format("{}: no matrix to take blocks from", path));
    }
    std::vector<float> blocks;
    blocks.reserve(wanted * kDimension);
    for (size_t t = 0; t < tensors.size(); ++t) {
        const auto& info = tensors[t];
        if (!usable(info)) {
            continue;
        }
        within(fmt::format("{}: tensor {}", path, info.name), [&] {
            const auto decoder = codec::make_tensor_decoder(info, model->payload(t));
            const uint64_t per_row = info.cols() / kDimension;
            const uint64_t here = info.rows() * per_row;
            const uint64_t take = (here * wanted + total - 1) / total;
            std::vector<float> row(info.cols());
            uint64_t decoded = info.rows();
            for (uint64_t k = 0; k < take; ++k) {
                const uint64_t block = k * here / take;
                const uint64_t at = block / per_row;  // NOLINT(clang-analyzer-core.DivideZero): see usable()
                if (at != decoded) {
                    decoded = at;
                    decoder->decode_rows(decoded, 1, row.data());
                }
                const auto begin = row.begin() + static_cast<ptrdiff_t>(block % per_row * kDimension);
                blocks.insert(blocks.end(), begin, begin + kDimension);
            }
        });
        model->release(t);
    }
    return blocks;
}

}  // namespace kaiju::cli
