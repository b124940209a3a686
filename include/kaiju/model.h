// Models on disk, GGUF or knot, as one view: kaiju::format::ModelFile.
#pragma once

#include "format/model_file.h"
