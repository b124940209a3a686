// Nearest points of the Leech lattice: kaiju::lattice::make_decoder.
#pragma once

#include "lattice/decoder.h"
