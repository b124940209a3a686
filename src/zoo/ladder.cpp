#include "zoo/ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "format/model_file.h"
#include "format/qspec.h"
#include "format/strict_json.h"
#include "runtime/llama_quantise.h"
#include "zoo/catalogue.h"
#include "zoo/prerequisites.h"
#include "zoo/process.h"
#include "zoo/publish.h"
#include "zoo/transfer.h"

namespace kaiju::zoo {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr uint64_t kLongestAnswer = uint64_t{16} << 20;

class Ladder {
  public:
    Ladder(const LadderOptions& options, Monitor& monitor)
        : options_(options), monitor_(monitor), store_(open_store(options.store, options.store_options)) {
        model_.id = options.id;
        model_.keys = options.keys;
        fs::create_directories(options_.work);
    }

    json build() {
        f16();
        base();
        step("imatrix", model_.key("imatrix"), [&](const fs::path& out) {
            std::vector<std::string> words{"imatrix",
                                           "--model",
                                           f16().string(),
                                           "--text",
                                           options_.calibration.string(),
                                           "--out",
                                           out.string(),
                                           "--ctx",
                                           std::to_string(options_.ctx)};
            add_chunks(words, options_.calibration_chunks);
            kaiju(words);
        });
        step("qspec", model_.key("qspec"), [&](const fs::path& out) {
            kaiju({"gate", "mint", "--model", f16().string(), "--prompt", options_.prompt, "--id",
                   options_.id, "--min-margin", fmt::format("{}", options_.min_margin), "--out",
                   out.string()});
        });
        sketch();
        rungs();
        return {{"id", options_.id}, {"made", made_}, {"there", there_}, {"rungs", figures_}};
    }

  private:
    void add_chunks(std::vector<std::string>& words, const std::optional<uint64_t>& chunks) const {
        if (chunks) {
            words.insert(words.end(), {"--chunks", std::to_string(*chunks)});
        }
    }

    /// Runs this program with other arguments; its messages go to the log in the work folder.
    std::string kaiju(std::vector<std::string> words) {
        monitor_.check_cancelled();
        const std::string name = words.front();
        words.insert(words.begin(), own_program());
        words.insert(words.end(), {"--threads", std::to_string(options_.threads)});
        const fs::path log = options_.work / "ladder.log";
        const ProcessResult result = run_process(
            words, {.log = log, .capture = true, .keep_going = [this] { return !monitor_.cancelled(); }});
        monitor_.check_cancelled();
        if (result.code != 0) {
            throw Error(result.code > 1 && result.code <= static_cast<int>(ErrorCode::io)
                            ? ErrorCode{result.code}
                            : ErrorCode::bad_input,
                        fmt::format("kaiju {} ended with code {}: {}", name, result.code, last_words(log)));
        }
        return result.output;
    }

    /// A file of the work folder that appears when it is whole.
    template <typename Make>
    fs::path local(const std::string& name, Make&& make) {
        fs::path path = options_.work / name;
        if (!fs::exists(path)) {
            monitor_.info(fmt::format("{}: {}", options_.id, name));
            make(path);
        }
        return path;
    }

    void publish_file(const std::string& key, const fs::path& file) {
        // One name for all feeders of a model, so that one that is started again goes on: leases keep them
        // apart.
        const std::string owner = "feeder-of-" + options_.id;
        try {
            publish(*store_, claim_key(*store_, key, owner), file, monitor_);
            made_.push_back(key);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::output_exists || !store_->head(key)) {
                throw;
            }
            there_.push_back(key);  // somebody else's is as good
        }
    }

    template <typename Make>
    void step(const std::string& name, const std::string& key, Make&& make) {
        if (store_->head(key)) {
            there_.push_back(key);
            return;
        }
        publish_file(key, local(name, make));
    }

    /// The object as a local file: linked where the store is a folder, fetched otherwise.
    void fetch(const std::string& key, const fs::path& out) {
        const std::string& address = store_->address();
        if (is_address(address) && !address.starts_with("file://")) {
            download(*store_, key, out, monitor_);
        } else {
            fs::create_symlink(
                fs::absolute(fs::path(address.starts_with("file://") ? address.substr(7) : address) / key),
                out);
        }
    }

    /// The source as a GGUF.
    fs::path source() {
        const std::string& given = options_.source;
        if (given.starts_with("hf:")) {
            throw Error(
                ErrorCode::missing,
                fmt::format("{}: fetch the repository into a folder first, and name the folder", given));
        }
        if (given.empty()) {
            throw Error(ErrorCode::missing,
                        fmt::format("{}: no source, and no f16 in the store", options_.id));
        }
        if (is_address(given) && !given.starts_with("file://")) {
            const ObjectAddress split = split_address(given);
            return download_model(*open_store(split.store, options_.store_options), split.key,
                                  options_.work / "source", monitor_);
        }
        fs::path path = given.starts_with("file://") ? given.substr(7) : given;
        if (fs::is_directory(path)) {
            return local("converted.gguf", [&](const fs::path& out) {
                convert_safetensors(path, out, options_.work / "ladder.log");
            });
        }
        return path;
    }

    fs::path f16() {
        const std::string key = model_.key("f16");
        const bool published = store_->head(key).has_value();
        fs::path path = local("f16.gguf", [&](const fs::path& out) {
            if (published) {
                fetch(key, out);
            } else {
                kaiju({"f16", "--model", source().string(), "--out", out.string()});
            }
        });
        if (!published) {
            publish_file(key, path);
        } else if (std::find(made_.begin(), made_.end(), key) == made_.end() &&
                   std::find(there_.begin(), there_.end(), key) == there_.end()) {
            there_.push_back(key);
        }
        return path;
    }

    void base() {
        step("base.knot", model_.key("base"), [&](const fs::path& out) {
            // What is not encoded stays as the source has it; without a source, as the f16 has it.
            const fs::path from = options_.source.empty() ? f16() : source();
            monitor_.check_cancelled();
            std::vector<std::string> words{own_program(), "knot",  "from-gguf",
                                           from.string(), "--out", out.string()};
            const ProcessResult result = run_process(words, {.log = options_.work / "ladder.log"});
            if (result.code != 0) {
                throw Error(ErrorCode{result.code},
                            fmt::format("{}: cannot be packed as a base: {}", from.string(),
                                        last_words(options_.work / "ladder.log")));
            }
        });
    }

    /// Its key names its bytes, so a sketch made anew never passes for another.
    void sketch() {
        if (options_.sketch_tokens == 0) {
            return;
        }
        if (const std::optional<Object> sketch = find_sketch(*store_, model_)) {
            there_.push_back(sketch->key);
            return;
        }
        const fs::path path = local("sketch", [&](const fs::path& out) {
            kaiju({"capture", "--model", f16().string(), "--text", options_.calibration.string(), "--out",
                   out.string(), "--ctx", std::to_string(options_.ctx), "--max-tokens",
                   std::to_string(options_.sketch_tokens), "--id", options_.id, "--resume"});
        });
        constexpr size_t kDigits = 8;
        publish_file(model_.keys.contains("sketch")
                         ? model_.key("sketch")
                         : model_.key("sketch") + sha256_file(path).substr(0, kDigits) + ".sket",
                     path);
    }

    void rungs() {
        if (options_.evaluation.empty() || options_.rungs.empty()) {
            return;
        }
        const std::string folder = fmt::format("models/iq-ladder/{0}/{0}", options_.id);
        const std::string summary = folder + ".ladder.json";
        if (store_->head(summary)) {
            there_.push_back(summary);
            figures_ = format::parse_strict_json(get_text(*store_, summary)).at("rungs");
            return;
        }
        for (const std::string& rung : options_.rungs) {
            figures_.push_back(one_rung(rung, fmt::format("{}-{}.gguf", folder, rung)));
        }
        const fs::path out = options_.work / "ladder.json";
        std::error_code ignored;
        fs::remove(out, ignored);
        write_new_file(out, json{{"id", options_.id}, {"rungs", figures_}}.dump(1) + "\n");
        publish_file(summary, out);
    }

    /// The part of the matrices' weights that a file stores at a type: libllama falls back to another one
    /// where rows do not divide into its blocks.
    static double share_of_type(const fs::path& path, const std::string& type) {
        const std::unique_ptr<format::ModelFile> model = format::ModelFile::open(path);
        double of_type = 0;
        double all = 0;
        for (const format::TensorInfo& tensor : model->tensors()) {
            if (tensor.shape.size() == 2) {
                const double weights =
                    static_cast<double>(tensor.rows()) * static_cast<double>(tensor.cols());
                all += weights;
                of_type += tensor.type == type ? weights : 0;
            }
        }
        return all > 0 ? of_type / all : 0;
    }

    json one_rung(const std::string& rung, const std::string& key) {
        const bool published = store_->head(key).has_value();
        const fs::path path = local(rung + ".gguf", [&](const fs::path& out) {
            if (published) {
                fetch(key, out);
                return;
            }
            const fs::path imatrix =
                local("imatrix", [&](const fs::path& there) { fetch(model_.key("imatrix"), there); });
            runtime::quantise_gguf(f16(), imatrix, rung, out, options_.threads);
        });
        const fs::path answer = local(rung + ".json", [&](const fs::path& out) {
            std::vector<std::string> words{"ppl",
                                           "--model",
                                           path.string(),
                                           "--text",
                                           options_.evaluation.string(),
                                           "--reference",
                                           f16().string(),
                                           "--ctx",
                                           std::to_string(options_.ctx),
                                           "--json"};
            add_chunks(words, options_.evaluation_chunks);
            write_new_file(out, kaiju(words));
        });
        json figures = format::parse_strict_json(read_text(answer, kLongestAnswer));
        figures["type"] = rung;
        figures["share"] = share_of_type(path, rung);
        if (figures["share"] == 0) {
            monitor_.warn(
                fmt::format("{}: no matrix of {} is {}: its rows do not divide into blocks of 256, and "
                            "libllama fell back to other types",
                            options_.id, path.filename().string(), rung));
        }
        figures["bytes"] = fs::file_size(path);
        if (published) {
            there_.push_back(key);
        } else {
            publish_file(key, path);
        }
        return figures;
    }

    const LadderOptions& options_;
    Monitor& monitor_;
    std::unique_ptr<ObjectStore> store_;
    Model model_;
    std::vector<std::string> made_;
    std::vector<std::string> there_;
    json figures_ = json::array();
};

}  // namespace

json build_ladder(const LadderOptions& options, Monitor& monitor) {
    if (!format::is_model_id(options.id)) {
        throw Error(ErrorCode::usage,
                    fmt::format("'{}' is no id: [a-z0-9][a-z0-9._-]{{0,63}} is", options.id));
    }
    return Ladder(options, monitor).build();
}

namespace {

/// Asks Python before it works, so that what it lacks has a name and is no traceback.
void require_python(const fs::path& folder) {
    const ProcessResult lacking = run_process(
        {"python3", "-c",
         "import importlib.util as u\n"
         "print(*[m for m in ('torch', 'transformers', 'numpy') if u.find_spec(m) is None], sep=', ')"},
        {.capture = true});
    const std::string modules = lacking.output.substr(0, lacking.output.find_last_not_of(" \n") + 1);
    if (lacking.code != 0 || !modules.empty()) {
        throw Error(ErrorCode::missing,
                    fmt::format("{}: safetensors are converted by llama.cpp's converter, and python3 {}{} "
                                "(docs/commands/ladder.md)",
                                folder.string(), modules.empty() ? "does not work" : "lacks ", modules));
    }
}

}  // namespace

void convert_safetensors(const fs::path& folder, const fs::path& out, const fs::path& log) {
    const char* converter = std::getenv("KAIJU_CONVERT_HF");
    if (converter == nullptr || !fs::exists(converter)) {
        throw Error(
            ErrorCode::missing,
            fmt::format("{}: safetensors are converted by llama.cpp's convert_hf_to_gguf.py: name it in "
                        "KAIJU_CONVERT_HF (docs/commands/ladder.md), or convert the folder yourself",
                        folder.string()));
    }
    const fs::path unfinished = out.string() + ".unfinished";
    require_python(folder);
    const ProcessResult result = run_process(
        {"python3", converter, "--outtype", "f16", "--outfile", unfinished.string(), folder.string()},
        {.log = log});
    if (result.code != 0) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{}: llama.cpp's converter ended with code {}: {} (all of it in {})",
                                folder.string(), result.code, last_words(log), log.string()));
    }
    fs::rename(unfinished, out);
}

}  // namespace kaiju::zoo
