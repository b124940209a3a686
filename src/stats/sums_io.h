// How accumulators put their sums into a checkpoint, and take them back.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace kaiju::stats {

template <typename Tile>
void save_sums(ByteWriter& out, uint64_t samples, const std::vector<double>& squares,
               const std::vector<Tile>& tiles) {
    out.write(samples);
    out.append(std::as_bytes(std::span(squares)));
    out.append(std::as_bytes(std::span(tiles)));
}

/// Into vectors that have their sizes already. Throws bad_input where bytes are missing.
template <typename Tile>
void load_sums(ByteReader& in, uint64_t& samples, std::vector<double>& squares, std::vector<Tile>& tiles) {
    samples = in.read<uint64_t>("the number of samples");
    const Bytes saved_squares = in.take(squares.size() * sizeof(double), "the squares");
    std::memcpy(squares.data(), saved_squares.data(), saved_squares.size());
    const Bytes saved_tiles = in.take(tiles.size() * sizeof(Tile), "the tiles");
    std::memcpy(tiles.data(), saved_tiles.data(), saved_tiles.size());
}

}  // namespace kaiju::stats
