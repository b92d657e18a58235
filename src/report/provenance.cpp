// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/provenance.hpp"

#include <algorithm>
#include <fstream>
#include <string_view>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "gpemu/report/markup.hpp"
#include "gpemu/report/number_text.hpp"

namespace gpemu::report {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// Characters of a command line that a page shows; it may contain a whole program.
constexpr std::size_t kMostCharacters = 500;

/// Returns the words that started this process.
std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

double cores_of(Duration cpu, const HostLoad& load) {
  return load.elapsed > Duration::zero() ? to_seconds(cpu) / to_seconds(load.elapsed) : 0;
}

OrderedJson load_json(const HostLoad& load, int cores) {
  return {{"elapsed_s", to_seconds(load.elapsed)},
          {"own_cpu_s", to_seconds(load.own_cpu)},
          {"others_cpu_s", to_seconds(load.others_cpu)},
          {"queued_s", load.queued ? OrderedJson(to_seconds(*load.queued)) : OrderedJson(nullptr)},
          {"preemptions", load.preemptions},
          {"slowdown", load.slowdown(cores)},
          {"too_busy", load.too_busy(cores)}};
}

std::string load_text(const HostLoad& load, int cores) {
  return fmt::format(
      "the run used {:.2f} of {} core{}, other processes {:.2f}; it waited for them {:.1f} % of "
      "the time in which it wanted a core",
      cores_of(load.own_cpu, load), cores, plural(cores), cores_of(load.others_cpu, load),
      100 * load.slowdown(cores));
}

/// Whether a shell takes a word as it is.
bool is_plain(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, [](char character) {
    const bool letter_or_digit = (character >= 'a' && character <= 'z') ||
                                 (character >= 'A' && character <= 'Z') ||
                                 (character >= '0' && character <= '9');
    return letter_or_digit || std::string_view("_@%+=:,./-").contains(character);
  });
}

}  // namespace

std::string date_text(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", std::chrono::floor<std::chrono::seconds>(time));
}

Provenance provenance_at(std::chrono::system_clock::time_point now) {
  return {.date = date_text(now), .command = command_line(), .host = host_facts(), .load = {}};
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    if (is_plain(word)) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char character : word) {
      if (character == '\'') {
        line += R"('\'')";
      } else {
        line += character;
      }
    }
    line += '\'';
  }
  return line;
}

void add_provenance(OrderedJson& json, const Provenance& provenance) {
  const HostFacts& host = provenance.host;
  json["gpemu_version"] = GPEMU_VERSION;
  json["date"] = provenance.date;
  json["command"] = provenance.command;
  json["host"] = {
      {"cpu", host.cpu},
      {"cores", host.cores},
      {"memory_mib", to_mib(host.memory)},
      {"kernel", host.kernel},
      {"load_average", host.load_average},
      {"load", provenance.load ? load_json(*provenance.load, host.cores) : OrderedJson(nullptr)}};
}

std::vector<std::pair<std::string, std::string>> provenance_facts(const Provenance& provenance) {
  const HostFacts& host = provenance.host;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"command", shortened(shell_line(provenance.command), kMostCharacters)},
      {"date", provenance.date},
      {"gpemu", GPEMU_VERSION},
      {"processor", host.cpu.empty() ? "unknown" : host.cpu},
      {"cores usable", fmt::to_string(host.cores)},
      {"memory", fmt::format("{:.1f} GiB", to_mib(host.memory) / 1024)},
      {"kernel", host.kernel},
      {"load average", fmt::format("{:.2f} before the run", host.load_average)}};
  if (provenance.load) {
    facts.emplace_back("load in the run", load_text(*provenance.load, host.cores));
  }
  return facts;
}

std::optional<std::string> load_warning(const Provenance& provenance, std::string_view doubted) {
  const int cores = provenance.host.cores;
  if (!provenance.load || !provenance.load->too_busy(cores)) return std::nullopt;
  return fmt::format(
      "warning: the host was too busy for a reliable measure of {}: {}. Repeat on an idle host",
      doubted, load_text(*provenance.load, cores));
}

}  // namespace gpemu::report
