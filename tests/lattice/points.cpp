#include "points.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <sstream>

namespace kaiju::test {

namespace {

constexpr size_t kN = lattice::kDimension;
constexpr int64_t kUnit = 65536;

/// All sums of the generators.
std::set<uint32_t> span_of(const std::vector<uint32_t>& generators) {
    std::set<uint32_t> sums = {0};
    for (const uint32_t g : generators) {
        std::set<uint32_t> more = sums;
        for (const uint32_t s : sums) {
            more.insert(s ^ g);
        }
        sums = more;
    }
    return sums;
}

const std::vector<uint32_t>& words() {
    static const std::vector<uint32_t> sorted = [] {
        const auto octet = [](std::initializer_list<int> positions) {
            uint32_t bits = 0;
            for (const int p : positions) {
                bits |= 1U << p;
            }
            return bits;
        };
        const auto h = span_of({octet({0, 1, 2, 3}), octet({0, 1, 4, 5}), octet({0, 2, 4, 6}), 0xFF});
        const auto t = span_of({octet({0, 1, 2, 5}), octet({0, 1, 3, 7}), octet({0, 2, 3, 6})});
        std::set<uint32_t> all;
        for (const uint32_t u : t) {
            for (const uint32_t a : h) {
                for (const uint32_t b : h) {
                    for (const uint32_t c : {a ^ b, a ^ b ^ 0xFF}) {
                        all.insert((a ^ u) | (b ^ u) << 8 | (c ^ u) << 16);
                    }
                }
            }
        }
        return std::vector<uint32_t>(all.begin(), all.end());
    }();
    return sorted;
}

int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
}

/// Half to even, without the floating-point unit's rounding mode.
int64_t round_to_grid(double y) {
    const double scaled = y * 65536.0;
    const double below = std::floor(scaled);
    const double rest = scaled - below;
    const auto whole = static_cast<int64_t>(below);
    if (rest != 0.5) {
        return rest < 0.5 ? whole : whole + 1;
    }
    return whole % 2 == 0 ? whole : whole + 1;
}

}  // namespace

lattice::Nearest nearest_by_definition(const Point& y) {
    lattice::Nearest best;
    int64_t best_d2 = -1;
    for (int m = 0; m < 2; ++m) {
        for (size_t index = 0; index < words().size(); ++index) {
            const uint32_t word = words()[index];
            std::array<int64_t, kN> q;
            std::array<int64_t, kN> other;
            int64_t sum = 0;
            int64_t d2 = 0;
            int64_t cheapest = -1;
            size_t repair_at = 0;
            for (size_t i = 0; i < kN; ++i) {
                const int64_t v = round_to_grid(y[i]) - kUnit * (m + 2 * static_cast<int64_t>(word >> i & 1));
                const int64_t below = floor_div(v, 4 * kUnit);
                const int64_t up = v - below * 4 * kUnit;  // distance down to `below`
                const int64_t down = 4 * kUnit - up;       // distance up to `below + 1`
                q[i] = up <= down ? below : below + 1;     // exactly between: the smaller q
                other[i] = up == 0      ? below - 1
                           : up <= down ? below + 1
                                        : below;  // on it: both sides, the smaller
                const int64_t near = std::min(up, down);
                const int64_t far = 4 * kUnit - near;
                const int64_t cost = far * far - near * near;
                if (cheapest < 0 || cost < cheapest) {
                    cheapest = cost;
                    repair_at = i;
                }
                sum += q[i];
                d2 += near * near;
            }
            if ((sum - m) % 2 != 0) {
                q[repair_at] = other[repair_at];
                d2 += cheapest;
            }
            if (best_d2 < 0 || d2 < best_d2) {
                best_d2 = d2;
                best.m = static_cast<uint8_t>(m);
                best.word = static_cast<uint16_t>(index);
                for (size_t i = 0; i < kN; ++i) {
                    best.x[i] = static_cast<int32_t>(m + 2 * static_cast<int64_t>(word >> i & 1) + 4 * q[i]);
                }
            }
        }
    }
    best.d2 = static_cast<double>(best_d2) / (65536.0 * 65536.0);
    return best;
}

std::vector<Point> uniform_points(size_t n, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<Point> points(n);
    for (Point& point : points) {
        for (double& v : point) {
            v = static_cast<float>(static_cast<double>(random() >> 40) * 0x1p-20 - 8.0);
        }
    }
    return points;
}

std::vector<Point> structured_points(size_t n, uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](int64_t lo, int64_t hi) {
        return lo + static_cast<int64_t>(random() % static_cast<uint64_t>(hi - lo + 1));
    };
    const auto lattice_point = [&] {
        Point x;
        const auto m = pick(0, 1);
        const uint32_t word = words()[static_cast<size_t>(pick(0, 4095))];
        int64_t sum = 0;
        for (size_t i = 0; i < kN; ++i) {
            int64_t q = pick(-2, 2);
            if (i + 1 == kN && (sum + q - m) % 2 != 0) {
                q += 1;
            }
            sum += q;
            x[i] = static_cast<double>(m + 2 * static_cast<int64_t>(word >> i & 1) + 4 * q);
        }
        return x;
    };
    std::vector<Point> points(n);
    for (size_t p = 0; p < n; ++p) {
        Point& y = points[p];
        switch (p % 10) {
            case 0:  // half-grid values
                for (double& v : y) {
                    v = static_cast<double>(pick(-16, 16)) / 2;
                }
                break;
            case 1:  // mostly zeros
                y.fill(0);
                for (int k = 0; k < 3; ++k) {
                    y[static_cast<size_t>(pick(0, 23))] = static_cast<double>(pick(-8, 8)) / 4;
                }
                break;
            case 2:
                y = lattice_point();
                break;
            case 3: {  // a deep hole (Conway and Sloane: (4, 0^23) has squared radius 16), moved by a lattice
                       // point
                y = lattice_point();
                y[static_cast<size_t>(pick(0, 23))] += 4;
                break;
            }
            case 4: {  // midway between two lattice points
                y = lattice_point();
                const Point other = lattice_point();
                for (size_t i = 0; i < kN; ++i) {
                    y[i] = (y[i] + other[i]) / 2;
                }
                break;
            }
            case 5:  // integers: every coordinate of one half at a boundary of the other
                for (double& v : y) {
                    v = static_cast<double>(pick(-4, 4));
                }
                break;
            case 6:  // huge
                for (double& v : y) {
                    v = static_cast<double>(pick(-(1 << 22), 1 << 22)) / 4;
                }
                break;
            case 7:  // one grid step, and half of one, beside half-grid values
                for (double& v : y) {
                    v = static_cast<double>(pick(-8, 8)) / 2 + static_cast<double>(pick(-3, 3)) * 0x1p-17;
                }
                break;
            case 8:  // constant
                y.fill(static_cast<double>(pick(-40, 40)) / 8);
                break;
            default:  // few distinct magnitudes
                for (double& v : y) {
                    v = (pick(0, 1) != 0 ? 1.0 : -1.0) * (pick(0, 1) != 0 ? 1.5 : 0.25);
                }
        }
    }
    return points;
}

std::vector<double> flatten(const std::vector<Point>& points) {
    std::vector<double> values;
    values.reserve(points.size() * kN);
    for (const Point& point : points) {
        values.insert(values.end(), point.begin(), point.end());
    }
    return values;
}

std::string describe(const Point& y) {
    std::ostringstream text;
    text.precision(17);
    for (const double v : y) {
        text << v << ' ';
    }
    return text.str();
}

std::string describe(const lattice::Nearest& nearest) {
    std::ostringstream text;
    text.precision(17);
    text << "m " << int{nearest.m} << " word " << nearest.word << " d2 " << nearest.d2 << " x";
    for (const int32_t v : nearest.x) {
        text << ' ' << v;
    }
    return text.str();
}

}  // namespace kaiju::test
