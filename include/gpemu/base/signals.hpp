// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace gpemu {

/// While an object of this class exists, the thread that made it gets no signals: they wait until
/// the object ends. A thread that is started meanwhile never gets any, so that the program's
/// signals reach only the program's own threads.
///
/// Thread safety: the thread that made an object also ends it; of several, the last one first.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  ~SignalsHeld() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace gpemu
