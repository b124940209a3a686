#include "format/sketch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/parallel.h"
#include "format/stock_types.h"

namespace kaiju::format {

namespace {

constexpr std::string_view kMagic = "KSK1";
constexpr uint32_t kVersion = 1;
constexpr double kOrthonormal = 1e-3;  ///< how far U'U may be from the identity

[[noreturn]] void refuse(std::string message) {
    throw Error(ErrorCode::bad_input, std::move(message));
}

/// Four partial sums: the compiler may not reorder one.
double dot(const double* a, const double* b, size_t count) {
    std::array<double, 4> sums{};
    size_t i = 0;
    for (; i + sums.size() <= count; i += sums.size()) {
        for (size_t lane = 0; lane < sums.size(); ++lane) {
            sums[lane] += a[i + lane] * b[i + lane];
        }
    }
    for (; i < count; ++i) {
        sums[0] += a[i] * b[i];
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void check_orthonormal(const Sketch& sketch) {
    const size_t dim = sketch.dim();
    const std::vector<double> vectors(sketch.eigvec.begin(), sketch.eigvec.end());
    for (size_t i = 0; i < sketch.k(); ++i) {
        for (size_t j = 0; j <= i; ++j) {
            const double product = dot(vectors.data() + i * dim, vectors.data() + j * dim, dim);
            if (!(std::fabs(product - (i == j ? 1 : 0)) <= kOrthonormal)) {
                refuse(i == j ? fmt::format("eigenvector {} has length {:.6f}, not 1", i, std::sqrt(product))
                              : fmt::format("eigenvectors {} and {} are not orthogonal: their product is "
                                            "{:.6f}",
                                            j, i, product));
            }
        }
    }
}

/// Everything that the format says of the numbers of an entry.
void check_numbers(const Sketch& sketch) {
    for (size_t i = 0; i < sketch.diag.size(); ++i) {
        if (!(sketch.diag[i] >= 0) || !std::isfinite(sketch.diag[i])) {
            refuse(fmt::format("column {}: a mean square of {}", i, sketch.diag[i]));
        }
    }
    for (size_t j = 0; j < sketch.eigval.size(); ++j) {
        if (!(sketch.eigval[j] >= 0) || !std::isfinite(sketch.eigval[j])) {
            refuse(fmt::format("eigenvalue {} is {}", j, sketch.eigval[j]));
        }
        if (j > 0 && sketch.eigval[j] > sketch.eigval[j - 1]) {
            refuse(fmt::format("eigenvalue {} ({}) is larger than the one before ({})", j, sketch.eigval[j],
                               sketch.eigval[j - 1]));
        }
    }
    for (size_t i = 0; i < sketch.eigvec.size(); ++i) {
        if (!std::isfinite(sketch.eigvec[i])) {
            refuse(fmt::format("eigenvector {}: component {} is {}", i / sketch.dim(), i % sketch.dim(),
                               sketch.eigvec[i]));
        }
    }
    check_orthonormal(sketch);
}

void check_head(std::string_view tap, uint64_t dim, uint64_t k, uint64_t samples) {
    if (tap.empty() || !is_utf8(tap)) {
        refuse("a tap's name is text in UTF-8");
    }
    if (dim == 0) {
        refuse("it has no columns");
    }
    if (k > dim) {
        refuse(fmt::format("{} eigenpairs of {} columns", k, dim));
    }
    if (samples == 0) {
        refuse("it was made from 0 samples");
    }
}

SketchEntry parse_entry(ByteReader& reader) {
    SketchEntry entry;
    entry.dim = reader.read<uint32_t>("the number of columns");
    entry.k = reader.read<uint32_t>("the number of eigenpairs");
    entry.samples = reader.read<uint64_t>("the number of samples");
    return entry;
}

template <typename T>
std::vector<T> copy_out(Bytes& bytes, size_t count) {
    std::vector<T> values(count);
    const Bytes part = bytes.first(count * sizeof(T));
    if (!part.empty()) {
        std::memcpy(values.data(), part.data(), part.size());
    }
    bytes = bytes.subspan(part.size());
    return values;
}

std::string read_text(ByteReader& reader, std::string_view what) {
    const auto length = reader.read<uint16_t>(fmt::format("the length of {}", what));
    return reader.text(length, what);
}

void write_text(ByteWriter& out, std::string_view text, std::string_view what) {
    if (text.size() > std::numeric_limits<uint16_t>::max() || !is_utf8(text)) {
        refuse(fmt::format("{} '{}': at most 65535 bytes of UTF-8", what, printable(text)));
    }
    out.write(static_cast<uint16_t>(text.size()));
    out.append(text);
}

}  // namespace

Sketch SketchEntry::load() const {
    Bytes rest = numbers;
    Sketch sketch{.tap = tap, .samples = samples};
    sketch.diag = copy_out<float>(rest, dim);
    sketch.eigval = copy_out<float>(rest, k);
    sketch.eigvec = copy_out<float>(rest, size_t{k} * dim);
    return sketch;
}

SketchTable parse_sketches(Bytes file) {
    constexpr uint64_t kSmallestEntry = 2 + 1 + 4 + 4 + 8 + sizeof(float);
    ByteReader reader(file);
    if (as_text(reader.take(kMagic.size(), "the magic")) != kMagic) {
        refuse("not a sketch: it does not begin with KSK1");
    }
    if (const auto version = reader.read<uint32_t>("the version"); version != kVersion) {
        refuse(fmt::format("version {} of the format; this program reads {}", version, kVersion));
    }
    SketchTable table;
    table.model_id = read_text(reader, "the model's id");
    if (!is_utf8(table.model_id)) {
        refuse("the model's id is not UTF-8");
    }
    const auto count = reader.read<uint32_t>("the number of entries");
    if (count > reader.remaining() / kSmallestEntry) {
        refuse(fmt::format("truncated: {} entries do not fit the {} bytes that follow", count,
                           reader.remaining()));
    }
    table.entries.reserve(count);
    std::set<std::string, std::less<>> seen;
    for (uint32_t i = 0; i < count; ++i) {
        const std::string tap = read_text(reader, fmt::format("the name of entry {}", i));
        within(fmt::format("entry {} ({})", i, printable(tap)), [&] {
            SketchEntry entry = parse_entry(reader);
            entry.tap = tap;
            check_head(tap, entry.dim, entry.k, entry.samples);
            if (!seen.insert(tap).second) {
                refuse("the tap occurs twice");
            }
            // dim + k + k dim: 32-bit factors, so that 64 bits hold it; the count of bytes may overflow.
            const uint64_t values = uint64_t{entry.dim} + entry.k + uint64_t{entry.k} * entry.dim;
            entry.numbers = reader.take(checked_mul(values, sizeof(float), "its size"), "its numbers");
            table.entries.push_back(std::move(entry));
        });
    }
    if (reader.remaining() != 0) {
        refuse(fmt::format("{} bytes are left over after the last entry", reader.remaining()));
    }
    // Products of all pairs of eigenvectors: worth more than one thread in a large file.
    parallel_for(table.entries.size(), 1, default_threads(), [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) {
            const SketchEntry& entry = table.entries[i];
            within(fmt::format("entry {} ({})", i, printable(entry.tap)),
                   [&] { check_numbers(entry.load()); });
        }
    });
    return table;
}

SketchFile::SketchFile(const std::filesystem::path& path)
    : file_(path), table_(within(path.string(), [&] { return parse_sketches(file_.bytes()); })) {}

const SketchEntry* SketchFile::find(std::string_view tap) const {
    const auto at =
        std::ranges::find_if(table_.entries, [&](const SketchEntry& entry) { return entry.tap == tap; });
    return at == table_.entries.end() ? nullptr : &*at;
}

SketchWriter::SketchWriter(const std::filesystem::path& path, std::string_view model_id, uint32_t entries)
    : file_(path), announced_(entries) {
    ByteWriter head;
    head.append(kMagic);
    head.write(kVersion);
    write_text(head, model_id, "the model's id");
    head.write(entries);
    file_.append(head.bytes());
}

void SketchWriter::append(const Sketch& sketch) {
    within(fmt::format("tap {}", printable(sketch.tap)), [&] {
        check_head(sketch.tap, sketch.diag.size(), sketch.eigval.size(), sketch.samples);
        if (sketch.eigvec.size() != sketch.diag.size() * sketch.eigval.size() ||
            sketch.diag.size() > std::numeric_limits<uint32_t>::max()) {
            refuse("its numbers do not fit each other");
        }
        if (std::ranges::find(taps_, sketch.tap) != taps_.end()) {
            refuse("the tap occurs twice");
        }
        check_numbers(sketch);
        ByteWriter out;
        write_text(out, sketch.tap, "the tap");
        out.write(sketch.dim());
        out.write(sketch.k());
        out.write(sketch.samples);
        for (const auto* values : {&sketch.diag, &sketch.eigval, &sketch.eigvec}) {
            out.append(std::as_bytes(std::span(*values)));
        }
        file_.append(out.bytes());
        taps_.push_back(sketch.tap);
    });
}

void SketchWriter::commit() {
    if (taps_.size() != announced_) {
        throw Error(ErrorCode::internal,
                    fmt::format("{} sketches written, {} announced", taps_.size(), announced_));
    }
    file_.commit();
}

}  // namespace kaiju::format
