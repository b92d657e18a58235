// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/sim/patience.hpp"

namespace gpemu::data {

/// Where an object store is, and who reads from it.
struct ObjectStoreSettings {
  std::string endpoint;  ///< e.g. http://127.0.0.1:9000; empty: AWS in the region.
  std::string region = "us-east-1";
  std::string key;  ///< empty: requests are not signed, for objects that anybody may read.
  std::string secret;
  std::string token;                        ///< of a session; may be empty.
  Duration patience = sim::kPatience;       ///< within which the server must answer as a whole.
  const std::atomic<bool>* stop = nullptr;  ///< ends each wait; it must outlive the store.
};

/// Reads the variables that AWS's own programs read: AWS_ENDPOINT_URL, AWS_REGION or
/// AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN.
[[nodiscard]] ObjectStoreSettings object_store_settings(const Lookup& lookup);

/// An object of a bucket.
struct StoredObject {
  std::string key;
  Bytes bytes = 0;
};

/// A page of a listing.
struct ObjectPage {
  std::vector<StoredObject> objects;
  std::string next;  ///< continues the listing; empty: it is complete.
};

/// The objects of a listing, in little more memory than their keys take. Thread safety: none.
class ObjectList {
 public:
  struct Entry {
    std::string_view key;  ///< valid as long as the list is.
    Bytes bytes = 0;
  };

  /// Requires: no key has a zero byte.
  void add(const ObjectPage& page);
  [[nodiscard]] std::vector<Entry> entries() const;
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Returns the memory that it takes.
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  struct Page {
    std::string keys;  ///< each with a zero byte behind it.
    std::vector<Bytes> sizes;
  };
  std::vector<Page> pages_;
  std::size_t size_ = 0;
  Bytes bytes_ = 0;
};

/// Returns how long a server may take to list so many objects, if the list goes on.
[[nodiscard]] Duration time_of_listing(Duration patience, std::size_t objects);

/// Reads the answer to ListObjectsV2 with encoded names.
///
/// Errors: kCorruptData if it is none.
[[nodiscard]] Result<ObjectPage> parse_object_page(std::string_view xml);

/// Returns whether a path names objects: s3://BUCKET/PREFIX.
[[nodiscard]] bool is_object_path(std::string_view path);

/// The objects of one bucket, by the protocol of S3, with libcurl. A request that fails because the
/// server has a fault, or stops to answer, is tried again, a few times, within the patience; then
/// one error says so.
///
/// Thread safety: any thread.
class ObjectStore {
 public:
  /// Errors: kUnsupported if there is no libcurl; kInvalidArgument.
  [[nodiscard]] static Result<std::shared_ptr<ObjectStore>> open(const std::string& bucket,
                                                                 ObjectStoreSettings settings);
  ~ObjectStore();
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  /// Lists the objects whose keys begin with `prefix`, in the order of keys. Each page must come
  /// within the patience, and all within that and a millisecond for each object.
  ///
  /// Errors: kNotFound, kIo, kCorruptData, kInterrupted, kResourceLimit.
  [[nodiscard]] Result<ObjectList> list(const std::string& prefix) const;
  /// Returns what the paths of its objects begin with: s3://BUCKET/.
  [[nodiscard]] std::string root() const;
  /// Reads a part of an object, and returns how many bytes were read.
  ///
  /// Errors: kIo, kNotFound naming the object; kInterrupted.
  [[nodiscard]] Result<Bytes> read(const std::string& path, Bytes offset,
                                   std::span<std::byte> buffer) const;

 private:
  struct State;
  explicit ObjectStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpemu::data
