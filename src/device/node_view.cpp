// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/node_view.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include "layout.hpp"
#include "segment_file.hpp"
#include "snapshot.hpp"

namespace gpemu::device {

struct NodeView::State {
  std::shared_ptr<Node> node;  ///< null for a node that is only watched; then the rest counts.
  NodePath path;
  FileDescriptor file;
  NodeFacts facts;

  /// Reads `count` records from an offset of the file.
  template <typename Record>
  [[nodiscard]] Result<std::vector<Record>> read(std::size_t count, std::uint64_t offset) const {
    std::vector<Record> records(count);
    GPEMU_TRY(read_exactly(file, path, records.data(), count * sizeof(Record), offset));
    return records;
  }
};

NodeView::NodeView(std::unique_ptr<State> state) : state_(std::move(state)) {}
NodeView::~NodeView() = default;

Result<std::shared_ptr<NodeView>> NodeView::open(std::string_view name,
                                                 const std::filesystem::path& directory) {
  auto state = std::make_unique<State>();
  GPEMU_ASSIGN(state->path, resolve(name, directory));
  GPEMU_ASSIGN(state->file, open_segment(state->path, O_RDONLY));
  GPEMU_ASSIGN(state->facts, read_facts(state->file, state->path));
  if (state->facts.temporary && is_unused(state->file)) {
    return fail(ErrorCode::kNotFound, "the run that the node '{}' belonged to has ended",
                state->path.name);
  }
  return std::shared_ptr<NodeView>(new NodeView(std::move(state)));
}

std::shared_ptr<NodeView> NodeView::of(std::shared_ptr<Node> node) {
  auto state = std::make_unique<State>();
  state->node = std::move(node);
  return std::shared_ptr<NodeView>(new NodeView(std::move(state)));
}

const std::string& NodeView::name() const {
  return state_->node ? state_->node->name() : state_->path.name;
}

int NodeView::device_count() const {
  return state_->node ? state_->node->device_count()
                      : static_cast<int>(state_->facts.devices.size());
}

SharingPolicy NodeView::policy() const {
  return state_->node ? state_->node->policy() : state_->facts.policy;
}

bool NodeView::temporary() const {
  return state_->node ? state_->node->temporary() : state_->facts.temporary;
}

bool NodeView::over() const {
  if (state_->node) return false;
  struct stat status{};
  return ::fstat(state_->file.get(), &status) != 0 || status.st_nlink == 0 ||
         (state_->facts.temporary && is_unused(state_->file));
}

Result<DeviceSnapshot> NodeView::device_snapshot(int index, TimePoint now) const {
  if (state_->node) return state_->node->device_snapshot(index, now);
  GPEMU_CHECK(index >= 0 && index < device_count(), "device index out of range");
  const auto device = static_cast<std::uint64_t>(index);
  const layout::Offsets offsets(state_->facts.devices.size());
  GPEMU_ASSIGN(
      const auto engines,
      state_->read<layout::EngineRecord>(
          kEngineCount, offsets.engines + device * kEngineCount * sizeof(layout::EngineRecord)));
  GPEMU_ASSIGN(const auto processes,
               state_->read<layout::ProcessRecord>(layout::kProcessCapacity, offsets.processes));
  GPEMU_ASSIGN(const auto holdings,
               state_->read<layout::HoldingRecord>(
                   layout::kProcessCapacity, offsets.holdings + device * layout::kProcessCapacity *
                                                                    sizeof(layout::HoldingRecord)));
  const Slots alive = slots_alive(state_->file.get(), -1);
  return make_snapshot(index, state_->facts.devices[device],
                       {.engines = engines, .processes = processes, .holdings = holdings}, alive,
                       now);
}

}  // namespace gpemu::device
