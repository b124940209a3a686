// kaiju::Error, the one thing that the library throws on purpose.
#pragma once

#include "base/error.h"
