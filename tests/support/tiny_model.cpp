#include "support/tiny_model.h"

#include <ggml-cpp.h>
#include <gguf.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace kaiju::test {

namespace {

/// SplitMix64: the same numbers on every machine, unlike the distributions of <random>.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t bits() {
        uint64_t z = (state_ += 0x9E3779B97F4A7C15);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        return z ^ (z >> 31);
    }
    float uniform() { return static_cast<float>(bits() >> 40) * 0x1p-24F; }
    /// Sum of 12 uniform numbers: close enough to a normal one, and free of library functions.
    float normal() {
        float sum = -6;
        for (int i = 0; i < 12; ++i) {
            sum += uniform();
        }
        return sum;
    }

  private:
    uint64_t state_;
};

constexpr std::array kWords = {"the ", "and ", "ing",  "ed ",  "of ", "to ",  "in ", "is ",
                               "that", "it ",  "was ", "for ", "on ", "are ", "as ", "with",
                               "er",   "or",   "an",   "at",   "en",  "es",   "re",  "th"};
/// SPM writes a space as U+2581.
constexpr std::string_view kSpace = "\xE2\x96\x81";

struct Vocabulary {
    std::vector<std::string> pieces;
    std::vector<float> scores;
    std::vector<int32_t> types;

    void add(std::string piece, float score, int32_t type) {
        pieces.push_back(std::move(piece));
        scores.push_back(score);
        types.push_back(type);
    }
};

std::string spm(std::string_view text) {
    std::string piece;
    for (const char c : text) {
        if (c == ' ') {
            piece += kSpace;
        } else {
            piece += c;
        }
    }
    return piece;
}

// SPM merges neighbours into the pair with the best score, so a word is reachable only through pieces that
// exist: every prefix of every word is a piece.
Vocabulary make_vocabulary() {
    constexpr int32_t kNormal = 1;
    constexpr int32_t kUnknown = 2;
    constexpr int32_t kControl = 3;
    constexpr int32_t kByte = 6;
    Vocabulary vocabulary;
    vocabulary.add("<unk>", 0, kUnknown);
    vocabulary.add("<s>", 0, kControl);
    vocabulary.add("</s>", 0, kControl);
    for (int byte = 0; byte < 256; ++byte) {
        std::array<char, 8> text{};
        std::snprintf(text.data(), text.size(), "<0x%02X>", byte);
        vocabulary.add(text.data(), 0, kByte);
    }
    vocabulary.add(std::string(kSpace), -100, kNormal);
    for (char c = '!'; c <= '~'; ++c) {
        vocabulary.add(std::string(1, c), -101.0F - static_cast<float>(c), kNormal);
    }
    for (const std::string_view word : kWords) {
        for (size_t length = 2; length <= word.size(); ++length) {
            const std::string piece = spm(word.substr(0, length));
            if (std::find(vocabulary.pieces.begin(), vocabulary.pieces.end(), piece) ==
                vocabulary.pieces.end()) {
                vocabulary.add(piece, -static_cast<float>(vocabulary.pieces.size() - 354), kNormal);
            }
        }
    }
    return vocabulary;
}

const Vocabulary& vocabulary() {
    static const Vocabulary instance = make_vocabulary();
    return instance;
}

class Writer {
  public:
    explicit Writer(const TinyModelOptions& options)
        : options_(options), random_(options.seed), parts_(options.parts) {
        if (options.parts < 1 || options.heads == 0 || options.width % options.heads != 0 ||
            (options.width / options.heads) % 2 != 0 || options.kv_heads == 0 ||
            options.heads % options.kv_heads != 0) {
            throw std::invalid_argument("write_tiny_model: impossible shape");
        }
        for (Part& part : parts_) {
            part.gguf.reset(gguf_init_empty());
        }
        write_keys();
        write_tensors();
    }

    std::filesystem::path save(const std::filesystem::path& path) {
        if (options_.parts == 1) {
            save_part(parts_[0], path);
            return path;
        }
        std::filesystem::path first;
        for (uint32_t i = 0; i < options_.parts; ++i) {
            gguf_context* gguf = parts_[i].gguf.get();
            gguf_set_val_u16(gguf, "split.no", static_cast<uint16_t>(i));
            gguf_set_val_u16(gguf, "split.count", static_cast<uint16_t>(options_.parts));
            gguf_set_val_i32(gguf, "split.tensors.count", static_cast<int32_t>(tensors_));
            std::array<char, 32> suffix{};
            std::snprintf(suffix.data(), suffix.size(), "-%05u-of-%05u.gguf", i + 1, options_.parts);
            const auto part = path.parent_path() / (path.stem().string() + suffix.data());
            save_part(parts_[i], part);
            if (i == 0) {
                first = part;
            }
        }
        return first;
    }

  private:
    struct Part {
        gguf_context_ptr gguf;
        std::vector<ggml_context_ptr> tensors;
    };

    static void save_part(const Part& part, const std::filesystem::path& path) {
        if (!gguf_write_to_file(part.gguf.get(), path.c_str(), false)) {
            throw std::runtime_error("write_tiny_model: cannot write " + path.string());
        }
    }

    void write_keys() {
        gguf_context* gguf = parts_[0].gguf.get();
        const std::string& arch = options_.architecture;
        const auto key = [&](const char* suffix) { return arch + suffix; };
        gguf_set_val_str(gguf, "general.architecture", arch.c_str());
        gguf_set_val_str(gguf, "general.name", options_.name.c_str());
        gguf_set_val_u32(gguf, key(".context_length").c_str(), options_.context);
        gguf_set_val_u32(gguf, key(".embedding_length").c_str(), options_.width);
        gguf_set_val_u32(gguf, key(".block_count").c_str(), options_.layers);
        gguf_set_val_u32(gguf, key(".feed_forward_length").c_str(), options_.ffn);
        gguf_set_val_u32(gguf, key(".attention.head_count").c_str(), options_.heads);
        gguf_set_val_u32(gguf, key(".attention.head_count_kv").c_str(), options_.kv_heads);
        gguf_set_val_f32(gguf, key(".attention.layer_norm_rms_epsilon").c_str(), 1e-5F);
        gguf_set_val_f32(gguf, key(".rope.freq_base").c_str(), 10000.0F);
        gguf_set_val_u32(gguf, key(".rope.dimension_count").c_str(), options_.width / options_.heads);
        gguf_set_val_u32(gguf, key(".vocab_size").c_str(), tiny_vocabulary_size());
        if (options_.window > 0) {
            gguf_set_val_u32(gguf, key(".attention.sliding_window").c_str(), options_.window);
        }

        const Vocabulary& words = vocabulary();
        std::vector<const char*> pieces;
        for (const std::string& piece : words.pieces) {
            pieces.push_back(piece.c_str());
        }
        gguf_set_val_str(gguf, "tokenizer.ggml.model", "llama");
        gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", pieces.data(), pieces.size());
        gguf_set_arr_data(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, words.scores.data(),
                          words.scores.size());
        gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, words.types.data(),
                          words.types.size());
        gguf_set_val_u32(gguf, "tokenizer.ggml.unknown_token_id", 0);
        gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", 1);
        gguf_set_val_u32(gguf, "tokenizer.ggml.eos_token_id", 2);
        if (!options_.chat_template.empty()) {
            gguf_set_val_str(gguf, "tokenizer.chat_template", options_.chat_template.c_str());
        }
    }

    void write_tensors() {
        const uint32_t width = options_.width;
        const uint32_t kv_width = width / options_.heads * options_.kv_heads;
        const std::vector<float> embedding = matrix("token_embd.weight", tiny_vocabulary_size(), width, 1.0F);
        for (uint32_t layer = 0; layer < options_.layers; ++layer) {
            const std::string block = "blk." + std::to_string(layer) + ".";
            norm(block + "attn_norm.weight", width);
            matrix(block + "attn_q.weight", width, width);
            matrix(block + "attn_k.weight", kv_width, width);
            matrix(block + "attn_v.weight", kv_width, width);
            if (options_.biases) {
                bias(block + "attn_q.bias", width);
                bias(block + "attn_k.bias", kv_width);
                bias(block + "attn_v.bias", kv_width);
            }
            matrix(block + "attn_output.weight", width, width);
            if (options_.architecture == "gemma3") {
                norm(block + "attn_q_norm.weight", width / options_.heads);
                norm(block + "attn_k_norm.weight", width / options_.heads);
            }
            if (options_.architecture == "gemma2" || options_.architecture == "gemma3") {
                norm(block + "post_attention_norm.weight", width);
                norm(block + "post_ffw_norm.weight", width);
            }
            norm(block + "ffn_norm.weight", width);
            matrix(block + "ffn_gate.weight", options_.ffn, width);
            matrix(block + "ffn_up.weight", options_.ffn, width);
            matrix(block + "ffn_down.weight", width, options_.ffn);
        }
        norm("output_norm.weight", width);
        if (options_.copied_head) {
            add("output.weight", GGML_TYPE_F16, tiny_vocabulary_size(), width, embedding);
        } else if (!options_.tied && !options_.architecture.starts_with("gemma")) {
            matrix("output.weight", tiny_vocabulary_size(), width);
        }
        if (options_.rope_factors) {
            std::vector<float> factors(width / options_.heads / 2);
            for (size_t i = 0; i < factors.size(); ++i) {
                factors[i] = 1.0F + static_cast<float>(i);
            }
            add("rope_freqs.weight", GGML_TYPE_F32, 1, width / options_.heads / 2, factors);
        }
        if (!options_.extra_tensor.empty()) {
            norm(options_.extra_tensor, width);
        }
    }

    /// Normal weights of standard deviation `deviation` (0: 1/sqrt(cols), which keeps the size of the
    /// activations), with column scales between 1/2 and 2, so that some columns matter more than others.
    std::vector<float> matrix(const std::string& name, uint32_t rows, uint32_t cols, float deviation = 0) {
        if (deviation == 0) {
            deviation = 1 / std::sqrt(static_cast<float>(cols));
        }
        std::vector<float> scale(cols);
        for (float& value : scale) {
            value = deviation * (0.5F + 1.5F * random_.uniform() * random_.uniform());
        }
        std::vector<float> values(size_t{rows} * cols);
        for (size_t i = 0; i < values.size(); ++i) {
            values[i] = scale[i % cols] * random_.normal();
        }
        const bool divides = cols % static_cast<uint64_t>(ggml_blck_size(options_.type)) == 0;
        add(name, divides ? options_.type : GGML_TYPE_F16, rows, cols, values);
        return values;
    }

    void norm(const std::string& name, uint32_t width) { vector(name, width, 1.0F); }
    void bias(const std::string& name, uint32_t width) { vector(name, width, 0.0F); }
    void vector(const std::string& name, uint32_t width, float mean) {
        std::vector<float> values(width);
        for (float& value : values) {
            value = mean + 0.1F * random_.normal();
        }
        add(name, GGML_TYPE_F32, 1, width, values);
    }

    void add(const std::string& name, ggml_type type, uint32_t rows, uint32_t cols,
             std::span<const float> values) {
        // Tensors are dealt out to the parts in turn; the first part of a split file holds the key-values
        // too.
        Part& part = parts_[tensors_++ % parts_.size()];
        const bool is_vector = rows == 1;
        const size_t bytes = ggml_row_size(type, cols) * rows;
        ggml_context_ptr context(ggml_init({.mem_size = bytes + 4 * ggml_tensor_overhead() + 256,
                                            .mem_buffer = nullptr,
                                            .no_alloc = false}));
        ggml_tensor* tensor = is_vector ? ggml_new_tensor_1d(context.get(), type, cols)
                                        : ggml_new_tensor_2d(context.get(), type, cols, rows);
        ggml_set_name(tensor, name.c_str());
        ggml_quantize_chunk(type, values.data(), tensor->data, 0, rows, cols, nullptr);
        gguf_add_tensor(part.gguf.get(), tensor);
        part.tensors.push_back(std::move(context));
    }

    TinyModelOptions options_;
    Random random_;
    std::vector<Part> parts_;
    uint32_t tensors_ = 0;
};

}  // namespace

uint32_t tiny_vocabulary_size() {
    return static_cast<uint32_t>(vocabulary().pieces.size());
}

std::filesystem::path write_tiny_model(const std::filesystem::path& path, const TinyModelOptions& options) {
    return Writer(options).save(path);
}

std::string tiny_text(size_t bytes, uint64_t seed) {
    constexpr std::array kVocabulary = {"lattice", "row",   "column", "weight",  "model", "point",
                                        "block",   "the",   "a",      "nearest", "error", "every",
                                        "holds",   "gives", "small",  "large",   "code",  "word"};
    Random random(seed);
    std::string text;
    while (text.size() < bytes) {
        const size_t words = 6 + random.bits() % 9;
        for (size_t i = 0; i < words; ++i) {
            text += i == 0 ? "" : " ";
            text += kVocabulary[random.bits() % kVocabulary.size()];
        }
        text += ".\n";
    }
    return text;
}

}  // namespace kaiju::test
