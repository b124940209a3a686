// A tiny model with an importance matrix, ready to be encoded.
#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "base/error.h"
#include "codec/encode_plan.h"
#include "codec/scope.h"
#include "format/imatrix.h"
#include "support/test_files.h"
#include "support/tiny_model.h"

namespace kaiju::codec::test {

class EncodeFixture {
  public:
    explicit EncodeFixture(const kaiju::test::TinyModelOptions& options = {}) {
        model_ = kaiju::test::write_tiny_model(folder_ / "model.gguf", options);
        const auto file = format::ModelFile::open(model_);
        for (const auto& tensor : file->tensors()) {
            if (is_linear_weight(tensor.name)) {
                auto& entry = imatrix_.entries[tensor.name];
                entry.count = 10;
                for (uint64_t i = 0; i < tensor.cols(); ++i) {
                    entry.sum_of_squares.push_back(static_cast<float>(1 + i * 7 % 13));
                }
            }
        }
        write_imatrix("imatrix.gguf");
    }

    /// Writes the (changed) matrix under a name of its own and makes it the one that options() names.
    void write_imatrix(const std::string& name) {
        imatrix_path_ = folder_ / name;
        format::write_imatrix(imatrix_path_, imatrix_);
    }

    [[nodiscard]] EncodeOptions options(const std::string& out = "out.knot") const {
        EncodeOptions options;
        options.model = model_;
        options.imatrix = imatrix_path_;
        options.out = folder_ / out;
        options.created_by = "kaiju test";
        return options;
    }

    [[nodiscard]] format::Imatrix& imatrix() { return imatrix_; }
    [[nodiscard]] const kaiju::test::TemporaryFolder& folder() const { return folder_; }

  private:
    kaiju::test::TemporaryFolder folder_;
    std::filesystem::path model_;
    std::filesystem::path imatrix_path_;
    format::Imatrix imatrix_;
};

/// Runs `action`, which must throw an Error of `code` whose message has `part` in it.
inline void expect_error(ErrorCode code, const std::string& part, const std::function<void()>& action) {
    try {
        action();
        ADD_FAILURE() << "no error; expected one about \"" << part << "\"";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), code) << error.what();
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
}

}  // namespace kaiju::codec::test
