// make_tiny_model OUT.gguf [KEY=VALUE ...]: the models of tiny_model.h for shell tests. Prints the file to
// open.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "support/tiny_model.h"

namespace {

ggml_type type_named(std::string_view name) {
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<ggml_type>(i);
        const char* known = ggml_type_name(type);
        if (known != nullptr && name == known) {
            return type;
        }
    }
    throw std::invalid_argument("unknown type " + std::string(name) + " (ggml's names: f32, f16, q8_0, ...)");
}

void set(kaiju::test::TinyModelOptions& options, std::string_view key, const std::string& value) {
    const auto number = [&] { return static_cast<uint32_t>(std::stoul(value)); };
    if (key == "seed") {
        options.seed = std::stoull(value);
    } else if (key == "width") {
        options.width = number();
    } else if (key == "ffn") {
        options.ffn = number();
    } else if (key == "layers") {
        options.layers = number();
    } else if (key == "heads") {
        options.heads = number();
    } else if (key == "kv_heads") {
        options.kv_heads = number();
    } else if (key == "context") {
        options.context = number();
    } else if (key == "type") {
        options.type = type_named(value);
    } else if (key == "tied") {
        options.tied = number() != 0;
    } else if (key == "copied_head") {
        options.copied_head = number() != 0;
    } else if (key == "biases") {
        options.biases = number() != 0;
    } else if (key == "architecture") {
        options.architecture = value;
    } else if (key == "window") {
        options.window = number();
    } else if (key == "rope_factors") {
        options.rope_factors = number() != 0;
    } else if (key == "name") {
        options.name = value;
    } else if (key == "chat_template") {
        options.chat_template = value;
    } else if (key == "parts") {
        options.parts = number();
    } else {
        throw std::invalid_argument("unknown key " + std::string(key));
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 4 && std::string_view(argv[1]) == "--text") {
        const std::string text =
            kaiju::test::tiny_text(std::strtoull(argv[2], nullptr, 10), std::strtoull(argv[3], nullptr, 10));
        std::fputs(text.c_str(), stdout);
        return 0;
    }
    if (argc < 2) {
        std::fputs(
            "usage: make_tiny_model OUT.gguf [seed=1 width=96 ffn=192 layers=2 heads=4 kv_heads=2 "
            "context=512 "
            "type=f32 tied=0 copied_head=0 biases=0 architecture=llama window=0 rope_factors=0 name=tiny "
            "chat_template= "
            "parts=1]\n"
            "       make_tiny_model --text BYTES SEED\n",
            stderr);
        return 2;
    }
    try {
        kaiju::test::TinyModelOptions options;
        for (int i = 2; i < argc; ++i) {
            const std::string argument = argv[i];
            const size_t equals = argument.find('=');
            if (equals == std::string::npos) {
                throw std::invalid_argument("not KEY=VALUE: " + argument);
            }
            set(options, argument.substr(0, equals), argument.substr(equals + 1));
        }
        std::puts(kaiju::test::write_tiny_model(argv[1], options).c_str());
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "make_tiny_model: %s\n", error.what());
        return 1;
    }
}
