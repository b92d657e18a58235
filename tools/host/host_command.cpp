// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/profile/host_spec.hpp"
#include "gpemu/report/output_file.hpp"
#include "gpemu/report/provenance.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"

#include "cli/command_line.hpp"
#include "cli/interrupt.hpp"
#include "cli/read_options.hpp"
#include "host/measure_host.hpp"

namespace gpemu::tools {
namespace {

struct HostCommandOptions {
  std::filesystem::path file;
  std::vector<std::string> data;
  HostMeasureOptions measure;
  Patience patience;
  bool quiet = false;
};

Result<void> list_hosts(const World& world) {
  report::TextTable table({"host", "description", "cores", "storage"});
  for (const std::string& name : profile::host_names(world.hosts)) {
    GPEMU_ASSIGN(const profile::HostSpec host,
                 profile::find_host({world.hosts, world.storage}, name));
    std::string storages;
    for (const profile::StorageSpec& storage : host.storages) {
      storages += (storages.empty() ? "" : ", ") + storage.name;
    }
    table.add_row({host.name, host.title, std::to_string(host.cpu.cores), storages});
  }
  report::print_out("{}", table.str(world.terminal().output_columns));
  return {};
}

Result<void> measure_this_host(const HostCommandOptions& options, const World& world) {
  const std::string name = options.file.stem().string();
  GPEMU_TRY(report::check_outputs({options.file}));
  const InterruptGuard interrupt;
  std::vector<data::Dataset> datasets;
  for (const std::string& folder : options.data) {
    GPEMU_ASSIGN(data::Dataset dataset,
                 open_dataset(folder, world, options.patience, &interrupt.flag()));
    datasets.push_back(std::move(dataset));
  }
  const report::Provenance provenance = report::provenance_at(world.time_of_day());
  GPEMU_ASSIGN(MeasuredHost host, measure_host(datasets, options.measure, world, interrupt.flag()));
  host.date = provenance.date;
  const std::string text = host_file_text(name, host);
  // Whatever is written must be readable: the name may not be one.
  GPEMU_TRY(profile::parse_host_spec(text, options.file.string(), world.storage));
  GPEMU_TRY(write_file_atomically(options.file, text));
  if (!options.quiet) report::print_out("{}", text);
  return {};
}

}  // namespace

void add_host_command(Command app, const World& world) {
  Command command =
      app.subcommand("host", "List described hosts, and describe this machine by measuring it");
  command.require_subcommand();
  command.notes(
      "`gpemu train host` and experiments load data on described hosts, in virtual time\n"
      "(docs/how-to/describe-your-host.md).\n"
      "\n"
      "Examples:\n"
      "  gpemu host list\n"
      "  gpemu host measure here.toml --data photos\n"
      "  gpemu train host ./here.toml --gpu V100-PCIE-32GB --model resnet18 --data photos\n");

  Command list = command.subcommand("list", "List the described hosts");
  list.on_run([&world] { return list_hosts(world); });

  auto options = std::make_shared<HostCommandOptions>();
  Command measure = command.subcommand(
      "measure", "Measure how fast this machine prepares and reads images, and write a host file");
  measure.option("file", options->file, "The host file to write; its name is the host's")
      .required();
  measure
      .option("--data", options->data,
              "A data set; may be given once for each format. Storage is measured with the first, "
              "which is dropped from the page cache")
      .one_word_each()
      .required();
  add_patience_option(measure, options->patience);
  measure.option("--images", options->measure.images, "Images of each measurement")
      .range(16, 1 << 20)
      .show_default();
  measure.option("--rounds", options->measure.rounds, "Repetitions, of which the fastest counts")
      .range(1, 1000)
      .show_default();
  measure.flag("--quiet", options->quiet, "Do not print the file");
  measure.notes(
      "Examples:\n"
      "  gpemu host measure here.toml --data photos\n"
      "  gpemu host measure here.toml --data photos --data shards --data records\n");
  measure.on_run([options, &world] { return measure_this_host(*options, world); });
}

}  // namespace gpemu::tools
