#include "runtime/llama_quantise.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llama.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/file.h"
#include "format/imatrix.h"
#include "runtime/llama_log.h"

namespace kaiju::runtime {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::pair<std::string_view, llama_ftype>, 4> kTypes{
    {{"IQ2_S", LLAMA_FTYPE_MOSTLY_IQ2_S},
     {"IQ3_XXS", LLAMA_FTYPE_MOSTLY_IQ3_XXS},
     {"IQ3_S", LLAMA_FTYPE_MOSTLY_IQ3_S},
     {"Q4_K_M", LLAMA_FTYPE_MOSTLY_Q4_K_M}}};

/// A name beside the output that is removed unless it was linked to its final one.
class Unfinished {
  public:
    explicit Unfinished(const fs::path& target) : target_(target), path_(target.string() + ".unfinished") {
        remove();
    }
    ~Unfinished() { remove(); }
    Unfinished(const Unfinished&) = delete;
    Unfinished& operator=(const Unfinished&) = delete;
    [[nodiscard]] const fs::path& path() const { return path_; }
    void commit() const {
        require_absent(target_);
        fs::rename(path_, target_);
    }

  private:
    void remove() const {
        std::error_code ignored;
        fs::remove(path_, ignored);
    }
    fs::path target_;
    fs::path path_;
};

}  // namespace

std::vector<std::string> quantisation_names() {
    std::vector<std::string> names;
    names.reserve(kTypes.size());
    for (const auto& [name, type] : kTypes) {
        names.emplace_back(name);
    }
    return names;
}

void quantise_gguf(const fs::path& model, const fs::path& imatrix_path, const std::string& type,
                   const fs::path& out, int threads) {
    const auto* const found =
        std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& one) { return one.first == type; });
    if (found == kTypes.end()) {
        throw Error(ErrorCode::usage, fmt::format("no quantisation is called {}; {} are", type,
                                                  fmt::join(quantisation_names(), ", ")));
    }
    require_absent(out);
    const format::Imatrix imatrix = format::read_imatrix(imatrix_path);
    std::vector<std::vector<float>> means;
    std::vector<llama_model_imatrix_data> entries;
    means.reserve(imatrix.entries.size());
    for (const auto& [name, entry] : imatrix.entries) {
        means.push_back(entry.mean_squares());
        entries.push_back({.name = name.c_str(), .data = means.back().data(), .size = means.back().size()});
    }
    entries.push_back({});  // the end
    llama_model_quantize_params parameters = llama_model_quantize_default_params();
    parameters.nthread = threads;
    parameters.ftype = found->second;
    parameters.imatrix = entries.data();
    const Unfinished unfinished(out);
    within(model.string(), [&] {
        const LlamaGuard guard;
        if (llama_model_quantize(model.c_str(), unfinished.path().c_str(), &parameters) != 0) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("cannot be quantised to {}: {}", type, guard.errors()));
        }
    });
    unfinished.commit();
}

}  // namespace kaiju::runtime
