// Options that every command which reaches a store shares.
#pragma once

#include <string>

#include "cli/numbers.h"
#include "zoo/store.h"

namespace kaiju::cli {

struct StoreArguments {
    std::string endpoint;
    std::string region;
    std::string style;
    double patience = zoo::StoreOptions{}.patience;
    int parallel = zoo::StoreOptions{}.parallel;

    [[nodiscard]] zoo::StoreOptions options() const {
        zoo::StoreOptions made{
            .endpoint = endpoint, .region = region, .patience = patience, .parallel = parallel};
        if (!style.empty()) {
            made.virtual_host = style == "virtual";
        }
        return made;
    }
};

inline void add_store_options(CLI::App& command, StoreArguments& arguments) {
    command
        .add_option("--endpoint", arguments.endpoint,
                    "URL of the S3 server (default: AWS_ENDPOINT_URL_S3, then Amazon)")
        ->type_name("URL");
    command.add_option("--region", arguments.region, "S3 region (default: AWS_REGION, then us-east-1)");
    command
        .add_option("--s3-style", arguments.style,
                    "Where the bucket's name goes (default: as the endpoint suggests)")
        ->check(CLI::IsMember({"path", "virtual"}));
    command.add_option("--patience", arguments.patience, "Seconds that a failing request is tried again")
        ->capture_default_str()
        ->check(between(0.0, 86400.0));
    command.add_option("--transfers", arguments.parallel, "Parts of a file under way at once")
        ->capture_default_str()
        ->check(between(1, 64));
}

}  // namespace kaiju::cli
