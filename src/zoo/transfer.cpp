#include "zoo/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/parallel.h"

namespace kaiju::zoo {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// The ranges of an unfinished download that are on disk: a line that says of what, then a number a line.
class RangeList {
  public:
    RangeList(fs::path path, const json& of) : path_(std::move(path)), of_(of.dump()) {
        std::error_code ignored;
        if (fs::exists(path_, ignored)) {
            read();
        }
        if (done_.empty()) {
            fs::remove(path_, ignored);
            append(of_);
        }
    }

    [[nodiscard]] const std::set<uint64_t>& done() const { return done_; }
    void add(uint64_t range) { append(std::to_string(range)); }
    void remove() const {
        std::error_code ignored;
        fs::remove(path_, ignored);
    }

  private:
    void read() {
        const std::string text = read_text(path_);
        std::istringstream lines(text.substr(0, text.rfind('\n') + 1));  // a cut last line does not count
        std::string line;
        if (!std::getline(lines, line) || line != of_) {
            return;
        }
        for (uint64_t range = 0; lines >> range;) {
            done_.insert(range);
        }
        fs::resize_file(path_, text.rfind('\n') + 1);
    }

    void append(const std::string& line) {
        const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path_.c_str(), "ab"),
                                                                   &std::fclose);
        const std::string whole = line + "\n";
        if (!file || std::fwrite(whole.data(), 1, whole.size(), file.get()) != whole.size() ||
            std::fflush(file.get()) != 0) {
            throw Error(ErrorCode::io, fmt::format("{}: cannot be written", path_.string()));
        }
    }

    fs::path path_;
    std::string of_;
    std::set<uint64_t> done_;
};

}  // namespace

void download(ObjectStore& store, const std::string& key, const fs::path& out, Monitor& monitor) {
    require_absent(out);
    const std::optional<Object> object = store.head(key);
    if (!object) {
        throw Error(ErrorCode::missing, fmt::format("{}/{}: not there", store.address(), key));
    }
    const uint64_t part = store.options().part_bytes;
    fs::path list_path = out;
    list_path += ".part.ranges";
    OutputFile file(out, OutputFile::OnAbandon::keep);
    // Without an etag nobody knows whether the object is still the one that was begun.
    const std::string etag = object->etag.empty() ? fmt::format("none-{}", fmt::ptr(&file)) : object->etag;
    RangeList ranges(
        list_path,
        {{"address", store.address()}, {"key", key}, {"etag", etag}, {"size", object->size}, {"part", part}});
    file.truncate(object->size);
    file.reserve(object->size);
    monitor.begin("download", object->size, "bytes");
    const uint64_t count = (object->size + part - 1) / part;
    const std::set<uint64_t> done = ranges.done();
    std::mutex mutex;
    parallel_for(count, 1, store.options().parallel, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) {
            const uint64_t length = std::min(part, object->size - i * part);
            if (!done.contains(i)) {
                monitor.check_cancelled();
                file.write_at(i * part, store.get(key, i * part, length, object->etag));
                file.sync();
                const std::lock_guard lock(mutex);
                ranges.add(i);
            }
            monitor.advance(length);
        }
    });
    monitor.end();
    if (!object->sha256.empty() && sha256_file(file.temporary()) != object->sha256) {
        ranges.remove();
        file.truncate(0);
        throw Error(
            ErrorCode::bad_input,
            fmt::format("{}/{}: the bytes that came are not those that were published (SHA-256 {}): what "
                        "was fetched is thrown away; fetch it again",
                        store.address(), key, object->sha256));
    }
    file.commit();
    ranges.remove();
}

std::vector<std::string> part_keys(const std::string& key) {
    constexpr std::string_view kFirst = "-00001-of-";
    constexpr std::string_view kEnd = ".gguf";
    constexpr size_t kDigits = 5;
    const size_t at = key.size() - std::min(key.size(), kFirst.size() + kDigits + kEnd.size());
    const std::string_view digits =
        std::string_view(key).substr(at).substr(std::min(key.size() - at, kFirst.size()), kDigits);
    if (key.compare(at, kFirst.size(), kFirst) != 0 || !key.ends_with(kEnd) ||
        digits.find_first_not_of("0123456789") != std::string_view::npos) {
        return {key};
    }
    uint64_t parts = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), parts);
    std::vector<std::string> keys{key};
    for (uint64_t part = 2; part <= parts; ++part) {
        keys.push_back(fmt::format("{}-{:05}-of-{}{}", key.substr(0, at), part, digits, kEnd));
    }
    return keys;
}

std::string file_name(const std::string& key) {
    const std::string path = key.substr(0, key.find('?'));
    return path.substr(path.rfind('/') + 1);
}

fs::path download_model(ObjectStore& store, const std::string& key, const fs::path& folder,
                        Monitor& monitor) {
    fs::create_directories(folder);
    for (const std::string& part : part_keys(key)) {
        const fs::path out = folder / file_name(part);
        if (!fs::exists(out)) {
            download(store, part, out, monitor);
        }
    }
    return folder / file_name(key);
}

}  // namespace kaiju::zoo
