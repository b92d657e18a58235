// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/host_spec.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "gpemu/base/file.hpp"

#include "nearest_names.hpp"
#include "sourced_file.hpp"
#include "sourced_table.hpp"
#include "storage_table.hpp"

namespace gpemu::profile {
namespace {

constexpr Bounds kCores{1, 4096};
constexpr Bounds kGibOfMemory{0.1, 1e6};
constexpr Bounds kSamples{1, 1e6};

/// Turns one parsed file into a HostSpec; every fault carries its line.
class HostReader {
 public:
  HostReader(const toml::table& root, std::string_view origin,
             const std::filesystem::path& storage_folder)
      : root_(root), file_(root, origin), storage_folder_(storage_folder) {}

  Result<HostSpec> read() {
    GPEMU_ASSIGN(spec_.name, file_.name());
    GPEMU_ASSIGN(spec_.title, file_.text("title"));
    GPEMU_TRY(SourcedTable(file_, root_, "the file")
                  .check_keys({"name", "title", "cpu", "memory", "loader", "storage", "network",
                               "sources"}));
    GPEMU_TRY(file_.read_sources());
    GPEMU_TRY(read_table("cpu", &HostReader::read_cpu));
    GPEMU_TRY(read_table("memory", &HostReader::read_memory));
    GPEMU_TRY(read_each("loader", &HostReader::read_loader));
    GPEMU_TRY(read_each("storage", &HostReader::read_storage));
    if (root_.contains("network")) GPEMU_TRY(read_table("network", &HostReader::read_network));
    GPEMU_TRY(file_.check_sources());
    spec_.sources = std::move(file_).citations();
    return std::move(spec_);
  }

 private:
  using ReadTable = Result<void> (HostReader::*)(const toml::table&, const std::string&);

  Result<void> read_table(const std::string& key, ReadTable read_one) {
    const toml::node* node = root_.get(key);
    if (node == nullptr) return file_.fault(root_, key, "missing; expected [{}]", key);
    if (!node->is_table()) return file_.fault(*node, key, "expected a table");
    GPEMU_TRY(file_.cite(*node->as_table(), key));
    return (this->*read_one)(*node->as_table(), key);
  }

  /// Reads the tables `[[key]]`, of which there must be one.
  Result<void> read_each(const std::string& key, ReadTable read_one) {
    const toml::node* node = root_.get(key);
    if (node == nullptr || !node->is_array_of_tables()) {
      return file_.fault(node == nullptr ? root_ : *node, key, "expected [[{}]]", key);
    }
    for (const toml::node& entry : *node->as_array()) {
      GPEMU_TRY((this->*read_one)(*entry.as_table(), key));
    }
    return {};
  }

  /// Returns the name of an entry of `[[key]]`.
  Result<std::string> entry_name(const toml::table& table, const std::string& key) const {
    GPEMU_ASSIGN(std::string name, file_.text(table, "name", key + ": name"));
    if (is_plain_name(name)) return name;
    return file_.fault(table, key, "'{}' is not a plain name", name);
  }

  /// Adds an entry of `[[key]]` to the others.
  template <typename Named>
  Result<void> add(const toml::table& table, const std::string& field, std::vector<Named>& others,
                   Named made) const {
    if (std::ranges::find(others, made.name, &Named::name) != others.end()) {
      return file_.fault(table, field, "there is another one of this name");
    }
    others.push_back(std::move(made));
    return {};
  }

  Result<void> read_cpu(const toml::table& table, const std::string& field) {
    const SourcedTable numbers(file_, table, field);
    GPEMU_TRY(numbers.check_keys({"model", "cores", "threads", "speed_by_busy", "source"}));
    GPEMU_ASSIGN(spec_.cpu.model, file_.text(table, "model", "cpu: model"));
    GPEMU_ASSIGN(spec_.cpu.cores, numbers.whole("cores", kCores));
    const Bounds threads{static_cast<double>(spec_.cpu.cores), kCores.most};
    GPEMU_ASSIGN(spec_.cpu.threads, numbers.whole("threads", threads, spec_.cpu.cores));
    GPEMU_ASSIGN(spec_.cpu.speed_by_busy, numbers.shares("speed_by_busy"));
    return {};
  }

  Result<void> read_memory(const toml::table& table, const std::string& field) {
    const SourcedTable numbers(file_, table, field);
    GPEMU_TRY(numbers.check_keys({"gib", "source"}));
    GPEMU_ASSIGN(const double gib, numbers.number("gib", kGibOfMemory));
    spec_.memory = static_cast<Bytes>(gib * static_cast<double>(kGiB));
    return {};
  }

  Result<void> read_loader(const toml::table& table, const std::string& key) {
    HostLoader made;
    GPEMU_ASSIGN(made.name, entry_name(table, key));
    const std::string field = fmt::format("{} {}", key, made.name);
    const SourcedTable numbers(file_, table, field);
    GPEMU_TRY(file_.cite(table, field));
    GPEMU_TRY(
        numbers.check_keys({"name", "shared_batches", "image_ms", "batch_ms", "batch_of",
                            "start_ms", "peer_ms", "send_ms", "receive_ms", "gpu_ms", "source"}));
    GPEMU_ASSIGN(made.shared_batches, numbers.flag("shared_batches"));
    GPEMU_ASSIGN(made.image_s, numbers.seconds("image_ms"));
    GPEMU_ASSIGN(made.batch_s, numbers.seconds("batch_ms", 0.0));
    GPEMU_ASSIGN(made.start_s, numbers.seconds("start_ms", 0.0));
    GPEMU_ASSIGN(made.peer_s, numbers.seconds("peer_ms", 0.0));
    GPEMU_ASSIGN(made.send_s, numbers.seconds("send_ms", 0.0));
    GPEMU_ASSIGN(made.receive_s, numbers.seconds("receive_ms", 0.0));
    GPEMU_ASSIGN(made.gpu_s, numbers.seconds("gpu_ms", 0.0));
    GPEMU_ASSIGN(made.batch_of, numbers.whole("batch_of", kSamples, 256));
    return add(table, field, spec_.loaders, std::move(made));
  }

  Result<void> read_storage(const toml::table& table, const std::string& key) {
    if (table.contains("device")) {
      GPEMU_TRY(SourcedTable(file_, table, key).check_keys({"device"}));
      GPEMU_ASSIGN(const std::string device, file_.text(table, "device", key + ": device"));
      Result<StorageSpec> made = find_storage(storage_folder_, device);
      if (!made) return file_.fault(table, key, "{}", made.error().message);
      made->sources.clear();  // They stand in its own file.
      return add(table, fmt::format("{} {}", key, made->name), spec_.storages, *std::move(made));
    }
    StorageSpec made;
    GPEMU_ASSIGN(made.name, entry_name(table, key));
    const std::string field = fmt::format("{} {}", key, made.name);
    GPEMU_TRY(file_.cite(table, field));
    GPEMU_TRY(SourcedTable(file_, table, field)
                  .check_keys({"name", "shared", "access_ms", "access_depth", "access_by_depth",
                               "mb_per_s", "requests_at_once", "source"}));
    GPEMU_TRY(read_storage_numbers(file_, table, field, made));
    return add(table, field, spec_.storages, std::move(made));
  }

  Result<void> read_network(const toml::table& table, const std::string& field) {
    const SourcedTable numbers(file_, table, field);
    GPEMU_TRY(numbers.check_keys({"mb_per_s", "request_ms", "source"}));
    GPEMU_ASSIGN(const double mb_per_s, numbers.number("mb_per_s", kMbPerS));
    GPEMU_ASSIGN(const double request_s, numbers.seconds("request_ms"));
    spec_.network = {.bytes_per_s = mb_per_s * 1e6, .request_s = request_s};
    return {};
  }

  const toml::table& root_;
  SourcedFile file_;
  const std::filesystem::path& storage_folder_;
  HostSpec spec_;
};

template <typename Named>
Result<Named> named(const std::vector<Named>& all, std::string_view wanted, std::string_view kind,
                    std::string_view host) {
  if (wanted.empty() && !all.empty()) return all.front();
  std::vector<std::string> names;
  for (const Named& one : all) {
    if (one.name == wanted) return one;
    names.push_back(one.name);
  }
  return fail(ErrorCode::kNotFound, "the host {} has no {} '{}'; it has: {}", host, kind, wanted,
              fmt::join(names, ", "));
}

}  // namespace

Result<HostLoader> HostSpec::loader(std::string_view wanted) const {
  return named(loaders, wanted, "loader", name);
}

Result<StorageSpec> HostSpec::storage(std::string_view wanted) const {
  return named(storages, wanted, "storage", name);
}

Result<HostSpec> parse_host_spec(std::string_view toml, std::string_view origin,
                                 const std::filesystem::path& storage) {
  GPEMU_ASSIGN(const toml::table root, parse_toml(toml, origin));
  return HostReader(root, origin, storage).read();
}

std::vector<std::string> host_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const std::filesystem::path& file : paths_in(folder)) {
    if (file.extension() == ".toml") names.push_back(file.stem().string());
  }
  return names;
}

Result<HostSpec> find_host(const HostFolders& folders, std::string_view name_or_path) {
  std::filesystem::path path = name_or_path;
  if (!name_or_path.contains('/') && !name_or_path.ends_with(".toml")) {
    const std::vector<std::string> names = host_names(folders.hosts);
    if (std::ranges::find(names, name_or_path) == names.end()) {
      return fail(ErrorCode::kNotFound,
                  "there is no host \"{}\"{}; there are: {}. The path of a TOML file describes "
                  "another one",
                  name_or_path, did_you_mean(name_or_path, names), fmt::join(names, ", "));
    }
    path = folders.hosts / fmt::format("{}.toml", name_or_path);
  }
  constexpr Bytes kMaxBytes = kMiB;  // Hundreds of times the largest one.
  GPEMU_ASSIGN(const std::string text, read_file(path, kMaxBytes));
  return parse_host_spec(text, path.string(), folders.storage);
}

}  // namespace gpemu::profile
