#include "codec/rotation.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kaiju::codec {

namespace {

// SplitMix64 (Steele, Lea and Flood 2014).
uint64_t mix(uint64_t v) {
    v = (v ^ v >> 30) * 0xBF58476D1CE4E5B9U;
    v = (v ^ v >> 27) * 0x94D049BB133111EBU;
    return v ^ v >> 31;
}

template <typename Real>
void butterflies(Real* x, size_t n) {
    for (size_t half = 1; half < n; half *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * half) {
            for (size_t i = begin; i < begin + half; ++i) {
                const Real a = x[i];
                const Real b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
        }
    }
}

template <typename Real>
void rotate_columns(Real* x, std::span<const float> signs, size_t span) {
    const Real scale = Real{1} / std::sqrt(static_cast<Real>(span));
    for (size_t j = 0; j < signs.size(); ++j) {
        x[j] *= static_cast<Real>(signs[j]);
    }
    for (size_t begin = 0; begin < signs.size(); begin += span) {
        butterflies(x + begin, span);
    }
    for (size_t j = 0; j < signs.size(); ++j) {
        x[j] *= scale;
    }
}

}  // namespace

Rotation::Rotation(uint32_t cols, uint64_t seed) : span_(span_of(cols)), signs_(cols) {
    constexpr uint64_t kStride = 0x9E3779B97F4A7C15U;
    uint64_t bits = 0;
    for (uint64_t j = 0; j < cols; ++j) {
        bits = j % 64 == 0 ? mix(seed + (j / 64 + 1) * kStride) : bits;
        signs_[j] = (bits >> (j % 64) & 1) != 0 ? -1.0F : 1.0F;
    }
}

uint32_t Rotation::span_of(uint32_t cols) {
    return std::min(kLargestSpan, uint32_t{1} << std::countr_zero(cols));
}

void Rotation::rotate(float* x) const {
    rotate_columns(x, signs_, span_);
}

void Rotation::rotate(double* x) const {
    rotate_columns(x, signs_, span_);
}

void Rotation::rotate_rows(float* x, size_t count, size_t stride) const {
    const float scale = 1.0F / std::sqrt(static_cast<float>(span_));
    const auto row = [&](size_t j) { return x + j * stride; };
    for (size_t j = 0; j < signs_.size(); ++j) {
        for (size_t c = 0; c < count; ++c) {
            row(j)[c] *= signs_[j] * scale;
        }
    }
    for (size_t begin = 0; begin < signs_.size(); begin += span_) {
        for (size_t half = 1; half < span_; half *= 2) {
            for (size_t i = begin; i < begin + span_; ++i) {
                if (((i - begin) & half) != 0) {
                    continue;
                }
                float* const first = row(i);
                float* const second = row(i + half);
                for (size_t c = 0; c < count; ++c) {
                    const float a = first[c];
                    const float b = second[c];
                    first[c] = a + b;
                    second[c] = a - b;
                }
            }
        }
    }
}

void hadamard(float* x, size_t n) {
    butterflies(x, n);
}

void hadamard(double* x, size_t n) {
    butterflies(x, n);
}

}  // namespace kaiju::codec
