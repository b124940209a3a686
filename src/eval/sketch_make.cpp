#include "eval/sketch_make.h"

#include <algorithm>

#include "base/parallel.h"
#include "format/sketch.h"
#include "stats/eigen.h"

namespace kaiju::eval {

void write_sketches(const format::CovarianceFile& file, uint32_t k, const std::filesystem::path& out,
                    int threads, Monitor& monitor) {
    const size_t count = file.entries().size();
    format::SketchWriter writer(out, file.model_id(), static_cast<uint32_t>(count));
    const auto group = static_cast<size_t>(std::max(threads, 1));
    std::vector<format::Sketch> sketches(group);
    monitor.begin("eigenpairs", count, "taps");
    for (size_t first = 0; first < count; first += group) {
        monitor.check_cancelled();
        const size_t width = std::min(group, count - first);
        parallel_for(width, 1, threads, [&](size_t begin, size_t end) {
            for (size_t i = begin; i < end; ++i) {
                const format::CovarianceEntry& entry = file.entries()[first + i];
                const size_t dim = entry.dim;
                std::vector<double> dense(dim * dim);
                file.fill(entry, std::span(dense));
                const stats::EigenPairs pairs =
                    stats::largest_eigenpairs(dense, dim, std::min<size_t>(k, dim));
                sketches[i] = {.tap = entry.tap,
                               .samples = entry.samples,
                               .diag = file.diagonal(entry),
                               .eigval = {pairs.values.begin(), pairs.values.end()},
                               .eigvec = {pairs.vectors.begin(), pairs.vectors.end()}};
                file.release(entry);
            }
        });
        for (size_t i = 0; i < width; ++i) {
            writer.append(sketches[i]);
        }
        monitor.advance(width);
    }
    monitor.end();
    writer.commit();
}

}  // namespace kaiju::eval
