// kaiju bench ...: how fast the parts are on this machine.
#include "cli/bench_commands.h"
#include "cli/command.h"

namespace kaiju::cli {

void add_bench(CLI::App& app, Session& session) {
    CLI::App* group =
        add_group(app, "bench", "Measure how fast the parts are on this machine; answers are checked first");
    add_bench_decoder(*group, session);
    add_bench_encode(*group, session);
    add_bench_kernel(*group, session);
    add_bench_model(*group, session);
}

}  // namespace kaiju::cli
