// S3 and servers that speak its protocol.
#pragma once

#include <memory>
#include <string>

#include "zoo/store.h"

namespace kaiju::zoo {

/// "s3://BUCKET[/PREFIX]". Credentials, and endpoint and region where the options leave them open, come from
/// the environment (credentials.h); without credentials requests are anonymous.
[[nodiscard]] std::unique_ptr<ObjectStore> open_s3_store(const std::string& address,
                                                         const StoreOptions& options);

}  // namespace kaiju::zoo
