// SPDX-License-Identifier: Apache-2.0
#include "runtime/runtime_settings.hpp"

#include <array>
#include <cstdlib>
#include <unistd.h>

#include <toml++/toml.h>

#include "gpemu/base/file.hpp"

namespace gpemu::tools {
namespace {

constexpr Bytes kMostSettingsBytes = kMiB;

/// The keys of a file of settings.
class SettingsReader {
 public:
  explicit SettingsReader(std::string_view origin) : origin_(origin) {}

  Result<RuntimeSettings> read(const toml::table& root) {
    std::array<char, 64> host{};
    ::gethostname(host.data(), host.size() - 1);
    settings_.machine = host.data();
    for (const auto& [key, node] : root) GPEMU_TRY(set(key.str(), node));
    if (settings_.gpus.empty()) {
      return fail(ErrorCode::kCorruptData, "{}: no gpus; write e.g. gpus = [\"A100-SXM4-40GB:8\"]",
                  origin_);
    }
    return std::move(settings_);
  }

 private:
  Result<void> set(std::string_view key, const toml::node& node) {
    if (key == "gpus") return set_gpus(node);
    const auto* const text = node.as_string();
    if (key != "machine" && key != "installation" && key != "state" && key != "runtime") {
      return wrong(node, key,
                   "unknown; the keys are gpus, machine, installation, state and runtime");
    }
    if (text == nullptr || text->get().empty()) return wrong(node, key, "expected a string");
    if (key == "machine") settings_.machine = text->get();
    if (key == "installation") settings_.installation = text->get();
    if (key == "state") settings_.state = text->get();
    if (key == "runtime") settings_.runtime = text->get();
    return {};
  }

  Result<void> set_gpus(const toml::node& node) {
    if (!node.is_array() || node.as_array()->empty()) {
      return wrong(node, "gpus", "expected a list of \"NAME\" or \"NAME:COUNT\"");
    }
    for (const toml::node& gpu : *node.as_array()) {
      if (!gpu.is_string()) return wrong(gpu, "gpus", "expected \"NAME\" or \"NAME:COUNT\"");
      settings_.gpus.push_back(gpu.as_string()->get());
    }
    return {};
  }

  [[nodiscard]] std::unexpected<Error> wrong(const toml::node& node, std::string_view key,
                                             std::string_view what) const {
    return fail(ErrorCode::kCorruptData, "{}:{}: {}: {}", origin_, node.source().begin.line, key,
                what);
  }

  std::string_view origin_;
  RuntimeSettings settings_;
};

}  // namespace

Result<RuntimeSettings> parse_runtime_settings(std::string_view text, std::string_view origin) {
  try {
    return SettingsReader(origin).read(toml::parse(text));
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::kCorruptData, "{}:{}: {}", origin, error.source().begin.line,
                error.description());
  }
}

Result<RuntimeSettings> read_runtime_settings() {
  const char* const named = std::getenv("GPEMU_RUNTIME_SETTINGS");
  const std::string path = named == nullptr ? kRuntimeSettings : named;
  const auto text = read_file(path, kMostSettingsBytes);
  if (text) return parse_runtime_settings(*text, path);
  if (text.error().code == ErrorCode::kNotFound && named == nullptr) return RuntimeSettings{};
  return std::unexpected(text.error());
}

}  // namespace gpemu::tools
