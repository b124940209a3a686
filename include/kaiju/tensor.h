// From payload bytes to weights, for KAIJU wires and every stock type: kaiju::codec::make_tensor_decoder.
#pragma once

#include "codec/tensor_decoder.h"
