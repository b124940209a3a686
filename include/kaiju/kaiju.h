// The public interface: everything that a program which links to libkaiju may use. Other headers may change
// at any time.
#pragma once

#include "kaiju/error.h"
#include "kaiju/lattice.h"
#include "kaiju/model.h"
#include "kaiju/tensor.h"
#include "kaiju/version.h"
