// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.hpp"

namespace gpemu::tools {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not take a lock");

extern "C" void gpemu_note_interrupt(int /*signal*/) {
  interrupted.store(true);
}

/// A signal that is ignored at the start of the command stays ignored, as after `nohup` and `&`.
void take(int signal, const struct sigaction& action, struct sigaction& old) {
  ::sigaction(signal, nullptr, &old);
  if (old.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted.store(false);
  struct sigaction action{};
  action.sa_handler = gpemu_note_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  take(SIGINT, action, old_interrupt_);
  take(SIGTERM, action, old_terminate_);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &old_interrupt_, nullptr);
  ::sigaction(SIGTERM, &old_terminate_, nullptr);
}

const std::atomic<bool>& InterruptGuard::flag() const {
  return interrupted;
}

}  // namespace gpemu::tools
