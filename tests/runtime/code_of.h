// What an action throws, for tests of the runtime.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/error.h"

namespace kaiju::runtime {

/// The code of the Error that `action` must throw, and its message.
inline ErrorCode code_of(const std::function<void()>& action, std::string* message = nullptr) {
    try {
        action();
    } catch (const Error& error) {
        if (message != nullptr) {
            *message = error.what();
        }
        return error.code();
    }
    ADD_FAILURE() << "no error";
    return ErrorCode::internal;
}

}  // namespace kaiju::runtime
