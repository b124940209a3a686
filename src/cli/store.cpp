// kaiju store ls | get | put | probe.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/store_options.h"
#include "zoo/publish.h"
#include "zoo/transfer.h"

namespace kaiju::cli {

namespace {

using nlohmann::json;

struct StoreCommand {
    StoreArguments store;
    std::string address;
    std::string file;
    std::string owner;
    bool take_over = false;
    int racers = 8;
};

int list(Session& session, const StoreCommand& command) {
    // A store itself, or a prefix inside it: everything behind the bucket is a prefix.
    const bool bucket = command.address.starts_with("s3://");
    const zoo::ObjectAddress split =
        bucket ? zoo::split_address(command.address) : zoo::ObjectAddress{command.address, ""};
    const auto store = zoo::open_store(split.store, command.store.options());
    json objects = json::array();
    std::string text;
    uint64_t bytes = 0;
    for (const zoo::Object& object : store->list(split.key)) {
        objects.push_back({{"key", object.key}, {"size", object.size}});
        text += fmt::format("{:>14} {}\n", object.size, object.key);
        bytes += object.size;
    }
    if (session.json()) {
        session.print(json{{"address", split.store}, {"objects", objects}, {"bytes", bytes}});
    } else {
        session.print(text);
    }
    return 0;
}

/// The address of an object, which a bucket or a folder alone is not.
zoo::ObjectAddress object_address(const std::string& address) {
    zoo::ObjectAddress split = zoo::split_address(address);
    if (split.key.empty()) {
        throw Error(ErrorCode::usage, fmt::format("{}: names no object: its key is missing", address));
    }
    return split;
}

int get(Session& session, const StoreCommand& command) {
    const zoo::ObjectAddress split = object_address(command.address);
    const auto store = zoo::open_store(split.store, command.store.options());
    zoo::download(*store, split.key, command.file, session.monitor());
    const uint64_t size = std::filesystem::file_size(command.file);
    if (session.json()) {
        session.print(json{{"out", command.file}, {"bytes", size}});
    } else {
        session.print(fmt::format("{}: {} bytes\n", command.file, size));
    }
    return 0;
}

int put(Session& session, const StoreCommand& command) {
    const zoo::ObjectAddress split = object_address(command.address);
    const auto store = zoo::open_store(split.store, command.store.options());
    if (!store->writable()) {
        throw Error(ErrorCode::usage, fmt::format("{}: can only be read", split.store));
    }
    if (!std::filesystem::is_regular_file(command.file)) {  // before the claim, which stays
        throw Error(ErrorCode::missing, fmt::format("{}: not a file", command.file));
    }
    const std::string owner = command.owner.empty() ? zoo::unique_owner() : command.owner;
    const zoo::Claim claim = zoo::claim_key(*store, split.key, owner, command.take_over);
    session.monitor().info(fmt::format("{} is claimed for --owner {}", split.key, owner));
    zoo::publish(*store, claim, command.file, session.monitor());
    if (session.json()) {
        session.print(json{{"key", split.key}, {"owner", owner}, {"token", claim.token}});
    } else {
        session.print(fmt::format("{}/{}\n", split.store, split.key));
    }
    return 0;
}

int probe(Session& session, const StoreCommand& command) {
    const zoo::Probe found = zoo::probe_store(command.address, command.store.options(), command.racers);
    const auto word = [](bool yes) { return yes ? "yes" : "no"; };
    if (session.json()) {
        session.print(json{{"address", command.address},
                           {"reads", found.reads},
                           {"lists", found.lists},
                           {"put_conditional", found.put_conditional},
                           {"put_winners", found.put_winners},
                           {"complete_conditional", found.complete_conditional},
                           {"complete_winners", found.complete_winners},
                           {"publishable", found.publishable()}});
    } else {
        session.print(
            fmt::format("reads back what is put          {}\n"
                        "lists                           {}\n"
                        "put respects If-None-Match      {} (winners of each race: {})\n"
                        "completion respects it          {} alone (winners of each race: {}; publication "
                        "does not rest on it)\n"
                        "can be published to             {}\n",
                        word(found.reads), word(found.lists), word(found.put_conditional),
                        fmt::join(found.put_winners, ", "), word(found.complete_conditional),
                        fmt::join(found.complete_winners, ", "), word(found.publishable())));
    }
    return found.publishable() ? 0 : 1;
}

}  // namespace

void add_store(CLI::App& app, Session& session) {
    CLI::App* group = add_group(app, "store", "Objects in a folder, an S3 bucket or on a web server");
    const auto command = [&](const std::string& name, const std::string& description,
                             const std::string& example, int (*run)(Session&, const StoreCommand&),
                             const std::shared_ptr<StoreCommand>& values) {
        CLI::App* added = add_command(*group, session, name, description, example,
                                      [values, run](Session& current) { return run(current, *values); });
        add_store_options(*added, values->store);
        add_json(*added, session);
        return added;
    };
    const auto listed = std::make_shared<StoreCommand>();
    CLI::App* ls = command("ls", "List the objects whose address begins so",
                           "kaiju store ls s3://bucket/models/", list, listed);
    ls->add_option("address", listed->address, "A folder, or s3://BUCKET[/PREFIX]")
        ->required()
        ->type_name("ADDRESS");

    const auto fetched = std::make_shared<StoreCommand>();
    CLI::App* fetch =
        command("get", "Fetch an object into a new file; the same command goes on where one was cut short",
                "kaiju store get s3://bucket/models/a.knot --out a.knot", get, fetched);
    fetch->add_option("address", fetched->address, "s3://BUCKET/KEY, http(s)://..., file://... or a path")
        ->required()
        ->type_name("ADDRESS");
    fetch->add_option("--out", fetched->file, "The file to write; it must not exist")
        ->required()
        ->type_name("FILE");

    const auto sent = std::make_shared<StoreCommand>();
    CLI::App* send =
        command("put", "Publish a file under a key that nobody else has claimed; exit 4 where somebody has",
                "kaiju store put a.knot s3://bucket/models/a.knot", put, sent);
    send->add_option("file", sent->file, "The file to publish")->required()->type_name("FILE");
    send->add_option("address", sent->address, "s3://BUCKET/KEY, file://... or a path")
        ->required()
        ->type_name("ADDRESS");
    send->add_option("--owner", sent->owner,
                     "The name under which the key was claimed, to go on after a failure");
    send->add_flag("--take-over", sent->take_over, "Take the claim of a run that is gone for good");

    const auto probed = std::make_shared<StoreCommand>();
    CLI::App* test =
        command("probe", "Find out by racing whether a store can be published to; exit 1 where it cannot",
                "kaiju store probe s3://bucket", probe, probed);
    test->add_option("address", probed->address, "The store")->required()->type_name("ADDRESS");
    test->add_option("--racers", probed->racers, "Writers that race for one key")
        ->capture_default_str()
        ->check(between(2, 64));
}

}  // namespace kaiju::cli
