#include <fmt/format.h>
#include <ggml-alloc.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "base/error.h"
#include "codec/kaiju1.h"
#include "codec/kaiju4.h"
#include "codec/stock.h"
#include "runtime/bench.h"
#include "runtime/llama_log.h"
#include "runtime/native/packed_nodes.h"
#include "runtime/threadpool.h"

namespace kaiju::runtime {

namespace {

using Clock = std::chrono::steady_clock;

/// Rows that are made; the rest are copies. Quantising 4096 x 4096 weights to IQ3_XXS would take minutes, and
/// how long a product takes does not depend on what the weights are.
constexpr uint32_t kMadeRows = 64;
/// Work that a timed graph should hold, in weights times tokens, so that starting it does not count.
constexpr double kWorkPerGraph = 2e8;

std::vector<float> normal_values(size_t count, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    std::ranges::generate(values, [&] { return normal(random); });
    return values;
}

/// The first kMadeRows rows of `bytes` over and over.
void repeat_rows(std::byte* bytes, uint32_t rows, size_t row_bytes) {
    for (uint32_t row = kMadeRows; row < rows; ++row) {
        std::memcpy(bytes + row * row_bytes, bytes + row % kMadeRows * row_bytes, row_bytes);
    }
}

/// Legal blocks drawn at random.
std::vector<std::byte> random_kaiju1(uint32_t rows, uint32_t cols) {
    namespace wire = codec::kaiju1;
    const auto layout = wire::Layout::for_matrix(rows, cols, 0.1);
    wire::Multipliers multipliers;
    for (size_t i = 0; i < multipliers.size(); ++i) {
        multipliers[i] = std::exp2(static_cast<float>(i) / 4 - 2);
    }
    std::vector<uint32_t> side_band(layout.n_hi);
    for (uint32_t i = 0; i < layout.n_hi; ++i) {
        side_band[i] = static_cast<uint32_t>(uint64_t{i} * cols / std::max(1U, layout.n_hi));
    }
    std::vector<std::byte> payload = wire::make_head(layout, multipliers, side_band);
    const size_t head = payload.size();
    payload.resize(layout.payload_bytes());
    std::mt19937 random(1);
    for (uint32_t row = 0; row < std::min(rows, kMadeRows); ++row) {
        const wire::RowFields<uint8_t> fields(
            reinterpret_cast<uint8_t*>(payload.data()) + head + row * layout.row_bytes(), layout);
        const std::array<float, 2> scales = {0.01F, 0.01F};
        std::memcpy(fields.scales, scales.data(), sizeof(scales));
        std::generate_n(fields.hi, layout.n_hi + layout.nibble_bytes(), random);
        for (uint32_t block = 0; block < layout.n_blocks; ++block) {
            uint8_t* code = fields.codes + wire::kCodeBytes * block;
            std::generate_n(code, 2, random);
            std::generate_n(code + 2, 4, [&] { return static_cast<uint8_t>(random() % 243); });
            code[6] = static_cast<uint8_t>(random() % 81);
        }
    }
    repeat_rows(payload.data() + head, rows, layout.row_bytes());
    return payload;
}

std::vector<std::byte> random_kaiju4(uint32_t rows, uint32_t cols, int index_bits) {
    namespace wire = codec::kaiju4;
    const auto layout = wire::Layout::for_matrix(rows, cols, index_bits);
    std::vector<std::byte> payload = wire::make_head(layout, 1, {1.0F, 1.15F, 1.3225F, 1.520875F});
    const size_t head = payload.size();
    payload.resize(layout.payload_bytes());
    auto* const records = reinterpret_cast<uint8_t*>(payload.data()) + head;
    std::mt19937 random(1);
    for (uint32_t row = 0; row < std::min(rows, kMadeRows); ++row) {
        uint8_t* const record = records + row * layout.row_bytes();
        const uint16_t scale = wire::to_bf16(0.01F);
        std::memcpy(record, &scale, sizeof(scale));
        for (uint64_t b = 0; b < layout.n_blocks(); ++b) {
            const auto below = [&](uint32_t limit) { return static_cast<uint16_t>(random() % limit); };
            wire::Block block = {
                .code = {.word = below(4096), .m = static_cast<uint8_t>(below(2)), .sequence = below(512)},
                .q = static_cast<uint8_t>(below(wire::kMultipliers))};
            for (uint16_t& index : block.code.index) {
                index = below(1U << index_bits);
            }
            wire::put_block(record, layout, b, block);
        }
    }
    repeat_rows(payload.data() + head, rows, layout.row_bytes());
    return payload;
}

/// One type's matrix, and how a graph multiplies with it.
class Product {
  public:
    Product(std::string type, const KernelBenchOptions& options)
        : info_{.name = "weights", .type = std::move(type), .shape = {options.rows, options.cols}} {
        if (is_ours()) {
            const auto index_bits = codec::kaiju4::index_bits_of(info_.type);
            payload_ = index_bits ? random_kaiju4(options.rows, options.cols, *index_bits)
                                  : random_kaiju1(options.rows, options.cols);
            info_.nbytes = payload_.size();
            matrix_ = pack_matrix(info_, payload_, options.precise ? Activations::f32 : Activations::int8,
                                  default_threads());
        } else {
            // Types that want importance get the same for all columns.
            const codec::StockEncoder encoder(info_.type, true);
            const uint32_t made = std::min(options.rows, kMadeRows);
            payload_.resize(encoder.describe(info_).nbytes);
            const std::vector<float> importance(options.cols, 1.0F);
            encoder.encode_rows(normal_values(size_t{made} * options.cols, 2).data(), made, options.cols,
                                payload_.data(), importance.data());
            repeat_rows(payload_.data(), options.rows, payload_.size() / options.rows);
        }
        info_.nbytes = payload_.size();
    }

    [[nodiscard]] const std::string& type() const { return info_.type; }
    [[nodiscard]] std::string kernel() const { return matrix_ ? matrix_->kernel() : "ggml"; }
    [[nodiscard]] size_t bytes() const { return payload_.size(); }
    [[nodiscard]] Bytes payload() const { return payload_; }

    ggml_tensor* node(ggml_context* context, ggml_tensor* x) {
        if (matrix_) {
            return multiply_node(context, *matrix_, prepare_node(context, *matrix_, x), x->ne[1]);
        }
        const auto type = static_cast<ggml_type>(format::find_stock_type(info_.type)->ggml);
        ggml_tensor* weights = ggml_new_tensor_2d(context, type, static_cast<int64_t>(info_.cols()),
                                                  static_cast<int64_t>(info_.rows()));
        weights->data = payload_.data();
        return ggml_mul_mat(context, weights, x);
    }

    /// Throws unless y is what the decoded weights give, up to the rounding of activations: in the mean
    /// within 3 % of the size of the answers.
    void check(std::span<const float> x, std::span<const float> y) const {
        const auto decoder = codec::make_tensor_decoder(info_, payload_);
        const size_t cols = info_.cols();
        const size_t rows = std::min<size_t>(kMadeRows, info_.rows());
        std::vector<float> weights(rows * cols);
        decoder->decode_rows(0, rows, weights.data());
        double error = 0;
        double size = 0;
        for (size_t r = 0; r < rows; ++r) {
            double exact = 0;
            for (size_t c = 0; c < cols; ++c) {
                exact += static_cast<double>(weights[r * cols + c]) * static_cast<double>(x[c]);
            }
            error += std::pow(static_cast<double>(y[r]) - exact, 2);
            size += exact * exact;
        }
        if (!(error <= 0.03 * 0.03 * size)) {
            throw Error(ErrorCode::internal,
                        fmt::format("type {} on {}: a wrong answer (error {:.3g} of {:.3g})", info_.type,
                                    kernel(), std::sqrt(error), std::sqrt(size)));
        }
    }

  private:
    [[nodiscard]] bool is_ours() const { return codec::is_kaiju_type(info_.type); }

    format::TensorInfo info_;
    std::vector<std::byte> payload_;
    std::unique_ptr<PackedMatrix> matrix_;
};

/// Reads bytes as 64-bit words, a share per thread.
void read_node(ggml_tensor* node, int ith, int nth, void* product) {
    const Bytes bytes = static_cast<const Product*>(product)->payload();
    const size_t words = bytes.size() / sizeof(uint64_t);
    const size_t end = words * (static_cast<size_t>(ith) + 1) / static_cast<size_t>(nth);
    constexpr size_t kUnrolled = 16;
    std::array<uint64_t, kUnrolled> sums{};
    size_t i = words * static_cast<size_t>(ith) / static_cast<size_t>(nth);
    for (; i + kUnrolled <= end; i += kUnrolled) {
        for (size_t k = 0; k < kUnrolled; ++k) {
            sums[k] += load<uint64_t>(bytes.data() + (i + k) * sizeof(uint64_t));
        }
    }
    uint64_t sum = 0;
    for (const uint64_t part : sums) {
        sum ^= part;
    }
    if (ith == 0) {
        *static_cast<float*>(node->data) = static_cast<float>(sum);  // so that reading is not left out
    }
}

/// A graph of `repeats` products of the same kind.
class TimedGraph {
  public:
    TimedGraph(Product& product, bool read_only, std::vector<float>& x, uint32_t batch, int repeats,
               ggml_threadpool* pool, int threads)
        : repeats_(repeats),
          context_(ggml_init({.mem_size = (8 * static_cast<size_t>(repeats) + 8) * ggml_tensor_overhead() +
                                          ggml_graph_overhead_custom(8 * static_cast<size_t>(repeats), false),
                              .mem_buffer = nullptr,
                              .no_alloc = true})),
          graph_(ggml_new_graph_custom(context_.get(), 8 * static_cast<size_t>(repeats), false)),
          allocator_(ggml_gallocr_new(ggml_backend_cpu_buffer_type())) {
        ggml_tensor* input =
            ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, static_cast<int64_t>(x.size() / batch), batch);
        input->data = x.data();
        for (int i = 0; i < repeats; ++i) {
            last_ = read_only ? ggml_custom_4d(context_.get(), GGML_TYPE_F32, 1, 1, 1, 1, &input, 1,
                                               read_node, GGML_N_TASKS_MAX, &product)
                              : product.node(context_.get(), input);
            ggml_set_output(last_);
            ggml_build_forward_expand(graph_, last_);
            if (i + 1 < repeats) {
                last_->flags &= ~GGML_TENSOR_FLAG_OUTPUT;
            }
        }
        if (!ggml_gallocr_alloc_graph(allocator_.get(), graph_)) {
            throw Error(ErrorCode::io, "no memory for the answers");
        }
        plan_ = ggml_graph_plan(graph_, threads, pool);
        work_.resize(plan_.work_size);
        plan_.work_data = work_.data();
    }

    /// Microseconds a product.
    double run() {
        const auto start = Clock::now();
        ggml_graph_compute(graph_, &plan_);
        return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / repeats_;
    }

    [[nodiscard]] std::span<const float> answer() const {
        return {static_cast<const float*>(last_->data), static_cast<size_t>(ggml_nelements(last_))};
    }

  private:
    int repeats_;
    ggml_context_ptr context_;
    ggml_cgraph* graph_;
    ggml_gallocr_ptr allocator_;
    ggml_tensor* last_ = nullptr;
    ggml_cplan plan_{};
    std::vector<uint8_t> work_;
};

struct Candidate {
    KernelTiming timing;
    std::unique_ptr<TimedGraph> graph;
    std::vector<double> times;
};

}  // namespace

std::vector<KernelTiming> bench_kernels(const KernelBenchOptions& options, const Monitor& monitor) {
    initialise_llama();
    std::map<std::string, std::unique_ptr<Product>> products;
    for (const std::string& type : options.types) {
        const std::string wanted = type == "read" ? "KAIJU1" : type;
        if (!products.contains(wanted)) {
            products[wanted] = std::make_unique<Product>(wanted, options);
        }
    }
    std::vector<KernelTiming> timings;
    for (const uint32_t batch : options.batches) {
        auto x = normal_values(size_t{batch} * options.cols, 3);
        const double work = static_cast<double>(options.rows) * options.cols * batch;
        const int repeats = static_cast<int>(std::clamp(kWorkPerGraph / work, 1.0, 64.0));
        for (const int threads : options.threads) {
            const ThreadpoolPtr pool = make_threadpool(threads);
            std::vector<Candidate> candidates;
            for (const std::string& type : options.types) {
                const bool read_only = type == "read";
                Product& product = *products.at(read_only ? "KAIJU1" : type);
                if (read_only && batch != 1) {
                    continue;
                }
                Candidate& candidate = candidates.emplace_back();
                candidate.timing = {.type = type,
                                    .kernel = read_only ? "" : product.kernel(),
                                    .batch = batch,
                                    .threads = threads,
                                    .bytes = product.bytes()};
                candidate.graph =
                    std::make_unique<TimedGraph>(product, read_only, x, batch, repeats, pool.get(), threads);
                candidate.graph->run();
                if (!read_only) {
                    product.check(x, candidate.graph->answer());
                }
            }
            if (candidates.empty()) {
                continue;  // plain reading is timed for one token only
            }
            const auto begin = Clock::now();
            const double seconds = options.seconds * static_cast<double>(candidates.size());
            do {
                for (Candidate& candidate : candidates) {
                    monitor.check_cancelled();
                    candidate.times.push_back(candidate.graph->run());
                }
            } while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds ||
                     candidates.front().times.size() < 3);
            for (Candidate& candidate : candidates) {
                std::ranges::sort(candidate.times);
                candidate.timing.best_us = candidate.times.front();
                candidate.timing.median_us = candidate.times[candidate.times.size() / 2];
                timings.push_back(candidate.timing);
            }
        }
    }
    return timings;
}

}  // namespace kaiju::runtime
