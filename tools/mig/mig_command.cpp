// SPDX-License-Identifier: Apache-2.0
#include "mig/mig_command.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/variables.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command_line.hpp"
#include "mig/mig_gpus.hpp"
#include "mig/mig_text.hpp"

namespace gpemu::tools {
namespace {

using device::MigInstance;
using device::MigLayout;
using profile::MigProfile;

struct MigOptions {
  MigExitCodes codes;
  std::string node;
  std::vector<std::string> ids;
  bool list_profiles = false, list_placements = false, list_instances = false;
  bool list_compute_profiles = false, list_compute_instances = false, list_devices = false;
  std::vector<std::string> create;
  bool with_compute = false;
  bool destroy = false;
  std::vector<std::string> create_compute;
  bool destroy_compute = false;
  std::optional<std::int64_t> gpu_instance, compute_instance;
};

/// How a command of nvidia-smi ended: whether all that was asked for was done.
using Done = Result<bool>;

MigFilter filter_of(const MigOptions& options) {
  const auto narrow = [](const std::optional<std::int64_t>& id) {
    return id ? std::optional(static_cast<int>(*id)) : std::nullopt;
  };
  return {.gpu_instance = narrow(options.gpu_instance),
          .compute_instance = narrow(options.compute_instance)};
}

/// Returns a number that is all of a text.
std::optional<int> number_of(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

/// A new GPU instance as -cgi names it: PROFILE or PROFILE:START, PROFILE being an id or a name.
struct Wanted {
  const MigProfile* profile = nullptr;
  std::optional<int> start;
};

Result<Wanted> read_wanted(const MigGpu& gpu, std::string_view text) {
  const std::size_t colon = text.find(':');
  std::string_view name = text.substr(0, colon);
  if (name.starts_with("MIG ")) name.remove_prefix(4);
  const std::optional<int> id = number_of(name);
  Wanted wanted;
  for (const MigProfile& profile : gpu.profiles) {
    if (profile.name == name || profile.id == id) wanted.profile = &profile;
  }
  if (colon != std::string_view::npos) wanted.start = number_of(text.substr(colon + 1));
  if (wanted.profile == nullptr || (colon != std::string_view::npos && !wanted.start)) {
    return fail(ErrorCode::kInvalidArgument,
                "-cgi {}: expected the id or the name of a profile of GPU {} (-lgip lists them), "
                "and perhaps a placement, as in 9:4",
                text, gpu.index);
  }
  return wanted;
}

/// A change of a GPU's instances, which may be called several times.
using Change = std::function<Result<void>(MigLayout& layout)>;

/// Makes a change. If the node refuses it as a driver would, prints why in nvidia-smi's words, with
/// `doing`, and returns false.
Done apply(device::Node& node, MigGpu& gpu, const Change& change, const std::string& doing,
           std::string_view reason) {
  const Result<void> changed = node.mig(gpu.index).change(gpu.profiles, change);
  gpu.layout = node.mig(gpu.index).layout(gpu.profiles);
  if (changed) return true;
  if (changed.error().code != ErrorCode::kUnavailable) return std::unexpected(changed.error());
  report::print_out("Unable to {}: {}\n", doing, reason);
  return false;
}

constexpr std::string_view kNoRoom = "Insufficient Resources";
constexpr std::string_view kInUse = "In use by another client";

/// Creates compute instances in a GPU instance; -1: one that is all of it.
Done create_compute(device::Node& node, MigGpu& gpu, int gpu_instance, int compute_profile) {
  const MigInstance* const instance = gpu.layout.instance(gpu_instance);
  if (instance == nullptr) {
    return fail(ErrorCode::kNotFound, "GPU {} has no GPU instance {}", gpu.index, gpu_instance);
  }
  const MigProfile& profile = *gpu.layout.profile(instance->profile);
  const auto kinds = device::mig_compute_profiles(profile.compute_slices);
  const auto kind = std::ranges::find_if(kinds, [&](const device::MigComputeProfile& known) {
    return compute_profile < 0 ? known.slices == profile.compute_slices
                               : known.id == compute_profile;
  });
  if (kind == kinds.end()) {
    return fail(ErrorCode::kInvalidArgument,
                "-cci {}: GPU instance {} has no such profile (-lcip lists them)", compute_profile,
                gpu_instance);
  }
  int made = -1;
  const Change change = [&](MigLayout& layout) -> Result<void> {
    GPEMU_ASSIGN(made, layout.create_compute(gpu_instance, kind->id));
    return {};
  };
  GPEMU_ASSIGN(const bool done,
               apply(node, gpu, change,
                     fmt::format("create a compute instance on GPU {:>2} GPU instance ID {:>2} "
                                 "using profile {}",
                                 gpu.index, gpu_instance, kind->id),
                     kNoRoom));
  if (!done) return false;
  report::print_out(
      "Successfully created compute instance ID {:>2} on GPU {:>2} GPU instance ID {:>2} using "
      "profile MIG {} (ID {:>2})\n",
      made, gpu.index, gpu_instance, MigLayout::name_of(profile, *kind), kind->id);
  return true;
}

Done create(device::Node& node, MigGpu& gpu, const MigOptions& options) {
  std::vector<Wanted> all;
  for (const std::string& text : options.create) {
    GPEMU_ASSIGN(all.emplace_back(), read_wanted(gpu, text));
  }
  for (const Wanted& wanted : all) {
    int made = -1;
    const Change change = [&](MigLayout& layout) -> Result<void> {
      GPEMU_ASSIGN(made, layout.create(wanted.profile->id, wanted.start));
      return {};
    };
    GPEMU_ASSIGN(const bool done,
                 apply(node, gpu, change,
                       fmt::format("create a GPU instance on GPU {:>2} using profile {}", gpu.index,
                                   wanted.profile->id),
                       kNoRoom));
    if (!done) return false;
    report::print_out(
        "Successfully created GPU instance ID {:>2} on GPU {:>2} using profile MIG {} (ID {:>2})\n",
        made, gpu.index, wanted.profile->name, wanted.profile->id);
    if (!options.with_compute) continue;
    GPEMU_ASSIGN(const bool computes, create_compute(node, gpu, made, -1));
    if (!computes) return false;
  }
  return true;
}

/// Returns the ids of the GPU instances that -gi names.
std::vector<int> gpu_instances(const MigGpu& gpu, const MigFilter& filter) {
  std::vector<int> ids;
  for (const MigInstance& instance : gpu.layout.instances()) {
    if (!filter.gpu_instance || *filter.gpu_instance == instance.id) ids.push_back(instance.id);
  }
  std::ranges::sort(ids);
  return ids;
}

Done create_computes(device::Node& node, MigGpu& gpu, const MigOptions& options) {
  for (const int instance : gpu_instances(gpu, filter_of(options))) {
    for (const std::string& text : options.create_compute) {
      const std::optional<int> id = text == "default" ? -1 : number_of(text);
      if (!id) {
        return fail(ErrorCode::kInvalidArgument,
                    "-cci {}: expected ids of compute instance profiles (-lcip lists them)", text);
      }
      GPEMU_ASSIGN(const bool done, create_compute(node, gpu, instance, *id));
      if (!done) return false;
    }
  }
  return true;
}

Done destroy(device::Node& node, MigGpu& gpu, const MigOptions& options) {
  for (const int id : gpu_instances(gpu, filter_of(options))) {
    GPEMU_ASSIGN(
        const bool done,
        apply(
            node, gpu, [id](MigLayout& layout) { return layout.destroy(id); },
            fmt::format("destroy GPU instance ID {:>2} from GPU {:>2}", id, gpu.index), kInUse));
    if (!done) return false;
    report::print_out("Successfully destroyed GPU instance ID {:>2} from GPU {:>2}\n", id,
                      gpu.index);
  }
  return true;
}

Done destroy_computes(device::Node& node, MigGpu& gpu, const MigOptions& options) {
  const MigFilter filter = filter_of(options);
  for (const int id : gpu_instances(gpu, filter)) {
    const std::vector<device::MigComputeInstance> all = gpu.layout.instance(id)->compute;
    for (const device::MigComputeInstance& compute : all) {
      if (filter.compute_instance && *filter.compute_instance != compute.id) continue;
      GPEMU_ASSIGN(
          const bool done,
          apply(
              node, gpu, [&](MigLayout& layout) { return layout.destroy_compute(id, compute.id); },
              fmt::format("destroy compute instance ID {:>2} from GPU {:>2} GPU instance ID {:>2}",
                          compute.id, gpu.index, id),
              kInUse));
      if (!done) return false;
      report::print_out(
          "Successfully destroyed compute instance ID {:>2} from GPU {:>2} GPU instance ID {:>2}\n",
          compute.id, gpu.index, id);
    }
  }
  return true;
}

/// Returns whether -gi and -ci name instances that exist.
bool has_named(const std::vector<MigGpu>& gpus, const MigFilter& filter, bool computes) {
  return std::ranges::any_of(gpus, [&](const MigGpu& gpu) {
    return std::ranges::any_of(gpu_instances(gpu, filter), [&](int id) {
      if (!computes) return true;
      const auto& all = gpu.layout.instance(id)->compute;
      return filter.compute_instance
                 ? gpu.layout.compute_instance(id, *filter.compute_instance) != nullptr
                 : !all.empty();
    });
  });
}

/// Changes instances, and returns the exit code.
Result<int> change(const MigOptions& options, std::vector<MigGpu>& gpus, const std::string& name,
                   const World& world) {
  GPEMU_ASSIGN(const auto node, device::Node::open(name, world.nodes));
  const bool destroys = options.destroy || options.destroy_compute;
  const bool computes = options.destroy_compute || !options.create_compute.empty();
  const std::string_view what = computes ? "compute" : "GPU";
  if (options.create.empty() && !has_named(gpus, filter_of(options), options.destroy_compute)) {
    report::print_out("No {} instances found: Not Found\n",
                      options.destroy_compute ? "compute" : "GPU");
    return options.codes.not_found;
  }
  for (MigGpu& gpu : gpus) {
    GPEMU_ASSIGN(const bool done, !options.create.empty()   ? create(*node, gpu, options)
                                  : options.destroy         ? destroy(*node, gpu, options)
                                  : options.destroy_compute ? destroy_computes(*node, gpu, options)
                                                            : create_computes(*node, gpu, options));
    if (done) continue;
    report::print_out("Failed to {} {} instances: {}\n", destroys ? "destroy" : "create", what,
                      destroys ? kInUse : kNoRoom);
    return destroys ? options.codes.in_use : options.codes.no_room;
  }
  return 0;
}

Result<int> run_mig(const MigOptions& options, const World& world) {
  GPEMU_ASSIGN(
      const std::string name,
      device::default_node_name(
          options.node.empty() ? world.variable(variable::kNode).value_or("") : options.node,
          world.nodes));
  GPEMU_ASSIGN(const auto view, device::NodeView::open(name, world.nodes));
  GPEMU_ASSIGN(std::vector<MigGpu> gpus, read_mig_gpus(*view, options.ids, world));
  const MigFilter filter = filter_of(options);
  std::string text;
  if (options.list_profiles) text += mig_profiles_text(gpus);
  if (options.list_placements) text += mig_placements_text(gpus);
  if (options.list_instances) text += mig_instances_text(gpus);
  if (options.list_compute_profiles) text += mig_compute_profiles_text(gpus, filter);
  if (options.list_compute_instances) text += mig_compute_instances_text(gpus, filter);
  if (options.list_devices) text += mig_devices_text(gpus);
  const int changes = (options.create.empty() ? 0 : 1) + (options.destroy ? 1 : 0) +
                      (options.create_compute.empty() ? 0 : 1) + (options.destroy_compute ? 1 : 0);
  if (changes + (text.empty() ? 0 : 1) != 1) {
    return fail(ErrorCode::kInvalidArgument,
                "give what to list, or one of -cgi, -dgi, -cci and -dci; see `gpemu mig --help`");
  }
  if (changes > 0) return change(options, gpus, name, world);
  report::print_out("{}", text);
  return 0;
}

}  // namespace

namespace {

void add_mig_options(Command mig, const std::shared_ptr<MigOptions>& options) {
  mig.option("-i,--id", options->ids, "Only these GPUs, by index or UUID")
      .separated_by(',')
      .one_word_each();
  mig.flag("--lgip,--list-gpu-instance-profiles", options->list_profiles,
           "List the GPU instance profiles, and how many of each can still be made");
  mig.flag("--lgipp,--list-gpu-instance-possible-placements", options->list_placements,
           "List where GPU instances of each profile may begin");
  mig.option("--cgi,--create-gpu-instance", options->create,
             "Create GPU instances of these profiles, by id or name; PROFILE:START says where")
      .separated_by(',')
      .one_word_each();
  mig.flag("-C,--default-compute-instance", options->with_compute,
           "Also create a compute instance that is all of each")
      .needs("--cgi");
  mig.flag("--lgi,--list-gpu-instances", options->list_instances, "List the GPU instances");
  mig.flag("--dgi,--destroy-gpu-instance", options->destroy, "Destroy GPU instances");
  mig.flag("--lcip,--list-compute-instance-profiles", options->list_compute_profiles,
           "List the compute instance profiles of each GPU instance");
  mig.option("--cci,--create-compute-instance", options->create_compute,
             "Create compute instances of these profiles, by id; without ids, one that is all of "
             "each GPU instance")
      .separated_by(',')
      .one_word_each();
  mig.flag("--lci,--list-compute-instances", options->list_compute_instances,
           "List the compute instances");
  mig.flag("--dci,--destroy-compute-instance", options->destroy_compute,
           "Destroy compute instances");
  mig.option("--gi,--gpu-instance-id", options->gpu_instance, "Only this GPU instance")
      .range(0, 14);
  mig.option("--ci,--compute-instance-id", options->compute_instance, "Only this compute instance")
      .range(0, 7);
  mig.flag("-L,--list-gpus", options->list_devices,
           "List the GPUs and their MIG devices, with the UUIDs for CUDA_VISIBLE_DEVICES");
}

}  // namespace

void add_mig_command(Command app, const World& world) {
  Command mig = app.subcommand(
      "mig", "Divide the GPUs of a node, with the options and words of `nvidia-smi mig`");
  auto options = std::make_shared<MigOptions>();
  mig.option("node", options->node,
             "NAME, or USER/NAME for another user's node; without it, GPEMU_NODE or the only node");
  add_mig_options(mig, options);
  mig.notes(
      "Options may have one dash, as with nvidia-smi.\n\n"
      "Examples:\n"
      "  gpemu node create n0 --gpu A100-SXM4-40GB --sharing mig\n"
      "  gpemu mig n0 -lgip\n"
      "  gpemu mig n0 -cgi 9,3g.20gb -C\n"
      "  gpemu mig n0 -L\n"
      "  gpemu mig n0 -dci -gi 1");
  mig.on_run([options, &world] { return run_mig(*options, world); });
}

void add_mig_command_of_nvidia_smi(Command app, const MigExitCodes& codes, const World& world) {
  Command mig = app.subcommand("mig", "Divide GPUs");
  auto options = std::make_shared<MigOptions>();
  options->codes = codes;
  add_mig_options(mig, options);
  mig.on_run([options, &world] { return run_mig(*options, world); });
}

}  // namespace gpemu::tools
