// SPDX-License-Identifier: Apache-2.0
#include "lock_file.hpp"

#include <atomic>
#include <fcntl.h>
#include <memory>
#include <set>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/sim/random.hpp"

namespace gpemu::device {
namespace {

/// A file without a name. Each time that it is opened again, locks count as another process's.
class LockFileTest : public testing::Test {
 protected:
  [[nodiscard]] FileDescriptor open_again() const {
    return FileDescriptor(
        ::open(fmt::format("/proc/self/fd/{}", memory_.get()).c_str(), O_RDWR | O_CLOEXEC));
  }
  [[nodiscard]] std::unique_ptr<LockFile> process() const {
    const ForkHold hold;
    return std::make_unique<LockFile>(open_again(), hold);
  }

  /// Returns the bytes, of `count` after `first`, that others than `asking` have locked.
  static std::set<std::int64_t> visited(int asking, std::int64_t first, std::int64_t count) {
    std::set<std::int64_t> bytes;
    for_each_lock_of_others(asking, first, count, [&](std::int64_t start, std::int64_t length) {
      for (std::int64_t i = 0; i < length; ++i) {
        EXPECT_TRUE(bytes.insert(start + i).second) << "visited twice: " << start + i;
      }
    });
    return bytes;
  }

  const FileDescriptor memory_{::memfd_create("gpemu_lock_file_test", MFD_CLOEXEC)};
};

using Bytes64 = std::set<std::int64_t>;

TEST_F(LockFileTest, OnlyOneHoldsALockUntilItUnlocksOrEnds) {
  auto first = process();
  const auto second = process();
  EXPECT_TRUE(first->lock(5));
  EXPECT_FALSE(second->lock(5));
  EXPECT_TRUE(second->lock(6));
  first->unlock(5);
  EXPECT_TRUE(second->lock(5));
  second->unlock(5);
  EXPECT_TRUE(first->lock(5));
  first.reset();
  EXPECT_TRUE(second->lock(5));
}

TEST_F(LockFileTest, SeesTheLocksOfOthersAndNotItsOwn) {
  const auto first = process();
  const auto second = process();
  ASSERT_TRUE(first->lock(5));
  EXPECT_FALSE(locked_by_others(first->get(), 0, 100));
  EXPECT_TRUE(locked_by_others(second->get(), 0, 100));
  EXPECT_TRUE(locked_by_others(second->get(), 5, 1));
  EXPECT_FALSE(locked_by_others(second->get(), 0, 5));
  EXPECT_FALSE(locked_by_others(second->get(), 6, 100));
}

TEST_F(LockFileTest, IfTheKernelCannotSayAllCountsAsLocked) {
  EXPECT_TRUE(locked_by_others(-1, 0, 4));
  EXPECT_EQ(visited(-1, 2, 4), (Bytes64{2, 3, 4, 5}));
}

TEST_F(LockFileTest, AReaderMayAsk) {
  const auto holder = process();
  ASSERT_TRUE(holder->lock(5));
  const FileDescriptor reader(
      ::open(fmt::format("/proc/self/fd/{}", memory_.get()).c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(locked_by_others(reader.get(), 5, 1));
  EXPECT_FALSE(locked_by_others(reader.get(), 6, 1));
}

TEST_F(LockFileTest, VisitsTheLocksOfAllOthers) {
  constexpr std::int64_t kFirst = std::int64_t{1} << 40;
  constexpr std::int64_t kCount = 40;
  sim::Rng random(3);
  const auto asking = process();
  ASSERT_TRUE(asking->lock(kFirst + 1));
  for (int round = 0; round < 50; ++round) {
    std::vector<std::unique_ptr<LockFile>> others;
    Bytes64 locked;
    for (int i = 0; i < 3; ++i) {
      others.push_back(process());
      for (int lock = 0; lock < round / 3; ++lock) {
        // Also before and after the bytes in question.
        const auto byte = kFirst - 3 + static_cast<std::int64_t>(random.below(kCount + 6));
        const bool is_in = byte >= kFirst && byte < kFirst + kCount;
        if (others.back()->lock(byte) && is_in) locked.insert(byte);
      }
    }
    EXPECT_EQ(visited(asking->get(), kFirst, kCount), locked) << round;
  }
}

TEST_F(LockFileTest, ALockWithoutEndCoversWhatIsAskedFor) {
  const auto holder = process();
  struct flock all{};
  all.l_type = F_WRLCK;
  all.l_whence = SEEK_SET;
  all.l_start = 7;
  all.l_len = 0;
  ASSERT_EQ(::fcntl(holder->get(), F_OFD_SETLK, &all), 0);
  const auto asking = process();
  EXPECT_EQ(visited(asking->get(), 4, 6), (Bytes64{7, 8, 9}));
  EXPECT_EQ(visited(asking->get(), 4, 0), Bytes64{});
}

/// Forks; the child says whether `look` is true, and lives until the object ends.
class Child {
 public:
  template <typename Look>
  explicit Child(Look look) {
    EXPECT_EQ(::pipe2(answer_, O_CLOEXEC) + ::pipe2(end_, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::close(end_[1]);
    char byte = look() ? 'y' : 'n';
    if (::write(answer_[1], &byte, 1) == 1) static_cast<void>(!::read(end_[0], &byte, 1));
    ::_exit(0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    for (const int end : {answer_[0], answer_[1], end_[0], end_[1]}) ::close(end);
    ::waitpid(pid_, nullptr, 0);
  }
  /// Returns what it saw, once it has.
  [[nodiscard]] bool saw() const {
    char byte = 0;
    return ::read(answer_[0], &byte, 1) == 1 && byte == 'y';
  }

 private:
  int answer_[2] = {-1, -1};
  int end_[2] = {-1, -1};
  pid_t pid_ = 0;
};

TEST_F(LockFileTest, AForkedChildHasNoPartInItsParentsLocks) {
  auto holder = process();
  ASSERT_TRUE(holder->lock(5));
  const int descriptor = holder->get();
  const Child child([&] { return holder->get() == -1 && ::fcntl(descriptor, F_GETFD) == -1; });
  EXPECT_TRUE(child.saw()) << "the child closed its copy";
  const auto other = process();
  EXPECT_FALSE(other->lock(5)) << "the parent still holds it";
  holder.reset();
  EXPECT_TRUE(other->lock(5)) << "the child lives, and does not";
}

TEST_F(LockFileTest, AForkedChildLeavesAFileThatTookTheDescriptorsNumber) {
  const auto holder = process();
  const FileDescriptor kept(::dup(holder->get()));
  const FileDescriptor other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::dup2(other.get(), holder->get()), holder->get());
  const int number = holder->get();
  {
    const Child child([&] { return ::fcntl(number, F_GETFD) >= 0; });
    EXPECT_TRUE(child.saw());
  }
  ASSERT_EQ(::dup2(kept.get(), holder->get()), holder->get());
}

TEST_F(LockFileTest, WhileItIsHeldNoThreadForks) {
  std::atomic<bool> forks{false}, forked{false}, released{false};
  bool was_released = false;
  std::thread thread;
  {
    const ForkHold hold;
    thread = std::thread([&] {
      forks = true;
      const Child child([&] { return released.load(); });
      forked = true;
      was_released = child.saw();
    });
    while (!forks) std::this_thread::yield();
    for (int i = 0; i < 10'000 && !forked; ++i) std::this_thread::yield();
    EXPECT_FALSE(forked);
    released = true;
  }
  thread.join();
  EXPECT_TRUE(was_released) << "the child was made afterwards";
}

}  // namespace
}  // namespace gpemu::device
