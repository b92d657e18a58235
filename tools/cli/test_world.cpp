// SPDX-License-Identifier: Apache-2.0
#include "cli/test_world.hpp"

#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/profile/database_writer.hpp"

#include "cli/command_line.hpp"

namespace gpemu::tools {
namespace {

profile::GpuText gpu_text(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(GPEMU_GPUS_FOLDER) / (name + ".toml");
  std::string toml = read_file(path).value();
  // These name GPUs that are not in this database.
  const std::size_t like = toml.find("\nother_arithmetic_like");
  if (like != std::string::npos) toml.erase(like, toml.find('\n', like + 1) - like);
  toml.erase(std::min(toml.find("\n[calibration]\n# The measured GPU"), toml.size()));
  return {std::move(toml), path.string()};
}

}  // namespace

std::ostream& operator<<(std::ostream& stream, const Outcome& outcome) {
  return stream << "exit code " << outcome.code << "\noutput: " << outcome.output
                << "\nerrors: " << outcome.errors;
}

Outcome run_command(std::vector<std::string> words, const World& world) {
  words.insert(words.begin(), "gpemu");
  std::vector<char*> pointers;
  pointers.reserve(words.size());
  for (std::string& word : words) pointers.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_command_line(static_cast<int>(pointers.size()), pointers.data(), world);
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

std::string squeezed(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == ' ' && (result.empty() || result.ends_with(' ') || result.ends_with('\n'))) continue;
    if (c == '\n' && result.ends_with(' ')) result.pop_back();
    result += c;
  }
  return result;
}

nlohmann::json parsed(const std::string& text) {
  return nlohmann::json::parse(text);
}

std::string slow_host(int image_ms, std::string_view storage) {
  return fmt::format(R"(name = "slow"
title = "A slow host"
[cpu]
model = "A processor"
cores = 4
source = "s"
[memory]
gib = 1
source = "s"
[[loader]]
name = "l"
image_ms = {}
source = "s"
{}[sources]
s = "Nobody measured it"
)",
                     image_ms, storage);
}

profile::Pack made_up_pack(const std::string& name) {
  using profile::Quantity;
  profile::Pack pack;
  pack.info = {.name = name,
               .title = "Made up",
               .citation = "Nobody",
               .url = "https://example.org",
               .licence = "CC0-1.0",
               .method = "Method",
               .framework = "PyTorch",
               .host = "Host",
               .samples = 8};
  pack.models = {{"resnet50", 25'557'032, {3, 224, 224}, name}};
  const auto add = [&pack](Quantity quantity, std::vector<profile::CurvePoint> points) {
    pack.curves.push_back({.key = {"resnet50", "V100-PCIE-32GB", "fp32", quantity},
                           .points = std::move(points),
                           .measured_rows = 256,
                           .mean_relative_error = 0.01,
                           .p90_relative_error = 0.02,
                           .p95_relative_error = 0.03,
                           .max_relative_error = 0.04});
  };
  add(Quantity::kForward, {{1, 10}, {64, 60}, {256, 240}});
  add(Quantity::kBackwardOptimizer, {{1, 20}, {64, 120}, {256, 480}});
  add(Quantity::kInputCopyPageable, {{1, 0.5}, {64, 12}, {256, 48}});
  add(Quantity::kPeakMemory, {{1, 500}, {64, 6000}, {256, 24'000}});
  add(Quantity::kPersistentMemory, {{1, 400}, {256, 500}});
  pack.limits = {{"resnet50", "V100-PCIE-32GB", "fp32", name, 256, 257}};
  return pack;
}

TestWorld::TestWorld()
    : folder(std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_tools_{}", ::getpid())),
      world{.nodes = folder / "nodes",
            .profiles = {.installed = folder / "profiles.db", .user = folder / "own" / "p.db"},
            .topologies = folder / "topologies",
            .storage = folder / "storage",
            .hosts = folder / "hosts",
            .experiments = folder / "experiments",
            .pairs = folder / "pairs.csv",
            .clusters = folder / "clusters",
            .temporary = folder,
            .current = folder,
            .executable = folder / "bin" / "gpemu",
            .environment =
                [this] {
                  std::vector<std::string> entries;
                  for (const auto& [name, value] : variables) {
                    entries.push_back(fmt::format("{}={}", name, value));
                  }
                  return entries;
                },
            .clock = clock,
            .clock_of_nodes = &clock,
            .time_of_day = [] { return std::chrono::system_clock::time_point(); },
            .terminal = [this] { return terminal; },
            .thread_cpu_time = [this] { return clock.now().time_since_epoch() / 2; },
            .process_cpu_time = [this] { return clock.now().time_since_epoch() / 2; },
            .host_sample =
                [this](report::LoadScope) {
                  const Duration time = clock.now().time_since_epoch();
                  return report::HostSample{
                      .time = time, .own_cpu = time / 2, .busy = time, .queued = {}};
                },
            .shims = [] { return std::filesystem::path("/shims"); },
            .run_program =
                [this](const std::vector<std::string>& words,
                       const std::vector<std::string>& environment, run::ProgramOutput output,
                       const std::function<void(pid_t)>& on_start) {
                  StartedProgram started{.words = words, .environment = {}, .output = output};
                  for (const std::string& entry : environment) {
                    const std::size_t equals = entry.find('=');
                    started.environment[entry.substr(0, equals)] = entry.substr(equals + 1);
                  }
                  if (on_start) on_start(::getpid());
                  return program(started);
                },
            .run_tool =
                [this](const std::vector<std::string>& words, const std::vector<std::string>&,
                       Duration) {
                  return program({.words = words,
                                  .environment = {},
                                  .output = run::ProgramOutput::kToStandardError});
                },
            .run_for_output = [this](const std::vector<std::string>& words,
                                     const std::vector<std::string>&, const std::filesystem::path&,
                                     int, const std::atomic<bool>&) { return printing(words); },
            .record_steps = [this](const run::ProgramRunOptions& options,
                                   const std::atomic<bool>&) { return recording(options); }} {
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::vector<profile::GpuText> gpus = {gpu_text("V100-PCIE-32GB"), gpu_text("T4")};
  const std::vector<profile::Pack> packs = {made_up_pack("made-up")};
  write("profiles.db", profile::build_database_image(gpus, packs).value());
}

TestWorld::~TestWorld() {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

std::string TestWorld::write(const std::filesystem::path& file, const std::string& text) const {
  const std::filesystem::path path = folder / file;
  std::filesystem::create_directories(path.parent_path());
  GPEMU_CHECK(write_file_atomically(path, text).has_value(), "the folder can be written");
  return path.string();
}

}  // namespace gpemu::tools
