// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpemu/report/json_text.hpp"

#include "sweep/sweep_engine.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::ordered_json;

/// A name may have 63 characters, of which Kubernetes adds the last ones.
constexpr std::size_t kMostNameLetters = 40;

/// Returns a name as Kubernetes allows it.
std::string object_name(std::string_view name) {
  std::string result = "sweep-";
  for (const char letter : name.substr(0, kMostNameLetters)) {
    const auto byte = static_cast<unsigned char>(letter);
    result += std::isalnum(byte) != 0 ? static_cast<char>(std::tolower(byte)) : '-';
  }
  return result + "-";
}

ordered_json container_json(const EngineJob& job) {
  const std::string cpus = fmt::format("{}", job.jobs);
  return {
      {"name", "gpemu"},
      {"image", job.spec.image},
      {"command",
       {"gpemu", "sweep", job.file.string(), "--folder", job.folder.string(), "--part",
        fmt::format("$(JOB_COMPLETION_INDEX)/{}", job.tasks), "--jobs", cpus, "--quiet"}},
      {"resources", {{"requests", {{"cpu", cpus}}}}},
      {"volumeMounts",
       ordered_json::array({{{"name", "sweep"}, {"mountPath", job.file.parent_path().string()}}})}};
}

/// Indexed Jobs of Kubernetes, by kubectl.
class KubernetesEngine final : public Engine {
 public:
  explicit KubernetesEngine(const World& world) : world_(world) {}

  [[nodiscard]] std::string_view file_name() const override { return "kubernetes.json"; }

  [[nodiscard]] Result<std::string> description(const EngineJob& job) const override {
    if (job.spec.image.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  "{}: --on kubernetes needs a table [kubernetes] with the image of the "
                  "containers and a volume",
                  job.file.string());
    }
    const std::string parent = job.file.parent_path().string();
    if (!job.folder.string().starts_with(parent + "/")) {
      return fail(ErrorCode::kInvalidArgument,
                  "--folder {}: pods see only the folder of the sweep's file, {}",
                  job.folder.string(), parent);
    }
    ordered_json volume = ordered_json::parse(job.spec.volume);
    volume["name"] = "sweep";
    const ordered_json pod{{"restartPolicy", "Never"},
                           {"automountServiceAccountToken", false},
                           {"containers", ordered_json::array({container_json(job)})},
                           {"volumes", ordered_json::array({volume})}};
    const ordered_json labels{{"app.kubernetes.io/name", "gpemu-sweep"}};
    return report::json_text(ordered_json{
        {"apiVersion", "batch/v1"},
        {"kind", "Job"},
        {"metadata", {{"generateName", object_name(job.spec.name)}, {"labels", labels}}},
        {"spec",
         {{"completionMode", "Indexed"},
          {"completions", job.tasks},
          {"parallelism", job.tasks},
          {"template", {{"metadata", {{"labels", labels}}}, {"spec", pod}}}}}});
  }

  [[nodiscard]] Result<std::string> submit(const std::filesystem::path& file) override {
    GPEMU_ASSIGN(
        const run::PrintedRun run,
        ask_engine(world_, {"kubectl", "create", "--filename", file.string(), "--output", "name"}));
    std::string job = run.output.substr(0, std::min(run.output.find('\n'), run.output.size()));
    if (run.code == 0 && !job.empty()) return job;
    return fail(ErrorCode::kUnavailable, "kubectl: {}", run.errors);
  }

  [[nodiscard]] Result<bool> is_working(const std::string& job) override {
    GPEMU_ASSIGN(const run::PrintedRun run,
                 ask_engine(world_, {"kubectl", "get", job, "--output", "json"}));
    if (run.code != 0) return run.errors.find("NotFound") == std::string::npos;
    const ordered_json object = ordered_json::parse(run.output, nullptr, false);
    const ordered_json conditions =
        object.is_object() && object.contains("status") && object["status"].is_object()
            ? object["status"].value("conditions", ordered_json::array())
            : ordered_json::array();
    return std::ranges::none_of(conditions, [](const ordered_json& condition) {
      const std::string type = condition.value("type", "");
      return (type == "Complete" || type == "Failed") && condition.value("status", "") == "True";
    });
  }

  [[nodiscard]] Result<void> remove(const std::string& job, bool /*has_ended*/) override {
    GPEMU_ASSIGN(const run::PrintedRun run,
                 ask_engine(world_, {"kubectl", "delete", job, "--ignore-not-found",
                                     "--cascade=foreground", "--wait=false"}));
    if (run.code == 0) return {};
    return fail(ErrorCode::kUnavailable, "kubectl delete {}: {}", job, run.errors);
  }

  [[nodiscard]] std::string advice(const std::string& job,
                                   const std::filesystem::path& /*folder*/) const override {
    return fmt::format("see `kubectl describe {0}` and `kubectl logs {0}`", job);
  }

 private:
  const World& world_;
};

}  // namespace

std::unique_ptr<Engine> kubernetes_engine(const World& world) {
  return std::make_unique<KubernetesEngine>(world);
}

}  // namespace gpemu::tools
