#include "base/monitor.h"

#include "base/error.h"

namespace kaiju {

void Monitor::check_cancelled() const {
    if (cancelled()) {
        throw Error(ErrorCode::interrupted, "interrupted");
    }
}

}  // namespace kaiju
