#include "eval/capture_state.h"

#include <fmt/format.h>

#include "base/checksum.h"
#include "base/error.h"

namespace kaiju::eval {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr uint32_t kMagic = 0x3153434B;  // "KCS1"

fs::path with_suffix(const fs::path& path, const char* suffix) {
    fs::path longer = path;
    longer += suffix;
    return longer;
}

const fs::path& require_resume(const fs::path& out, bool resume) {
    require_absent(out);
    const fs::path part = with_suffix(out, ".part");
    if (!resume && fs::exists(part)) {
        throw Error(
            ErrorCode::usage,
            fmt::format("{}: an unfinished capture is there: continue it with --resume, or delete it and "
                        "{}.state",
                        part.string(), part.string()));
    }
    return out;
}

}  // namespace

CaptureState::CaptureState(const fs::path& out, bool resume)
    : path_(with_suffix(out, ".part.state")),
      lock_(require_resume(out, resume), OutputFile::OnAbandon::keep) {}

uint64_t CaptureState::load(const json& settings, TapCollector& collector) const {
    if (!fs::exists(path_)) {
        return 0;
    }
    return within(path_.string(), [&] {
        const MappedFile file(path_);
        ByteReader reader(file.bytes());
        if (reader.read<uint32_t>("the magic") != kMagic) {
            throw Error(ErrorCode::bad_input, "not the state of a capture: delete it to start anew");
        }
        const auto checksum = reader.read<uint64_t>("the checksum");
        if (xxh3(file.bytes().subspan(reader.offset())) != checksum) {
            throw Error(ErrorCode::bad_input, "damaged: delete it to start anew");
        }
        const auto length = reader.read<uint64_t>("the length of the settings");
        const json before = json::parse(reader.text(length, "the settings"), nullptr, false);
        if (before != settings) {
            std::string differing;
            for (const auto& [key, value] : settings.items()) {
                if (!before.is_object() || before.value(key, json()) != value) {
                    differing += (differing.empty() ? "" : ", ") + key;
                }
            }
            throw Error(
                ErrorCode::usage,
                fmt::format("the unfinished capture was begun with other settings ({}): repeat them, or "
                            "delete it to start anew",
                            differing));
        }
        const auto chunks = reader.read<uint64_t>("the number of chunks");
        collector.load(file.bytes().subspan(reader.offset()));
        return chunks;
    });
}

void CaptureState::save(const json& settings, uint64_t chunks, const TapCollector& collector) const {
    const fs::path next = with_suffix(path_, ".new");
    fs::remove(next);  // of a run that was killed while it wrote
    OutputFile file(next);
    const std::string text = settings.dump();
    ByteWriter head;
    head.write(kMagic);
    head.write(uint64_t{0});  // the checksum, once it is known
    head.write(uint64_t{text.size()});
    head.append(text);
    head.write(chunks);
    file.append(head.bytes());
    collector.save([&](Bytes bytes) { file.append(bytes); });
    {
        constexpr size_t kBehindChecksum = sizeof(kMagic) + sizeof(uint64_t);
        const MappedFile written(file.temporary());
        const uint64_t checksum = xxh3(written.bytes().subspan(kBehindChecksum));
        file.write_at(sizeof(kMagic), std::as_bytes(std::span(&checksum, 1)));
    }
    file.commit();
    fs::rename(next, path_);
}

void CaptureState::remove() {
    fs::remove(path_);
    fs::remove(lock_.temporary());
}

}  // namespace kaiju::eval
