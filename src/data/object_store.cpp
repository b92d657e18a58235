// SPDX-License-Identifier: Apache-2.0
// libcurl is loaded when the first object is read: few data sets need it, and every program that
// uses gpemu would load it and the twenty libraries that it needs.
#include "gpemu/data/object_store.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <curl/curl.h>
#include <dlfcn.h>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/text.hpp"

namespace gpemu::data {
namespace {

using namespace std::chrono_literals;

/// How often a request is sent that fails for a reason that may pass, and how long the first pause
/// is; each pause is four times the one before. Source: AWS's own programs try three times.
constexpr int kRequestTries = 3;
constexpr auto kFirstPause = 100ms;
/// Seconds until a connection must be there, and in which a byte must come.
constexpr long kConnectS = 5;
constexpr long kSilenceS = 10;
/// Of a listing's page, which has up to 1,000 keys of up to 1,024 bytes, each encoded as up to
/// three; and of an error.
constexpr std::size_t kMostText = 4 * kMiB;
/// Of an answer's headers. Source: Amazon's own answers have less than 1 KiB.
constexpr std::size_t kMostHeaders = 64 * kKiB;
/// Of a whole listing in memory: 1.3 million keys as those of ImageNet's images.
constexpr Bytes kMostListed = 60'000'000;
/// What a listing may take beside the patience: a thousandth of what servers need for a key.
constexpr auto kTimeOfAKey = 1ms;

/// The functions of libcurl that are used. Source: the newest, curl_multi_poll, came with 7.66 in
/// 2019.
struct Curl {
  CURL* (*init)() = nullptr;
  void (*cleanup)(CURL*) = nullptr;
  void (*reset)(CURL*) = nullptr;
  CURLcode (*set)(CURL*, CURLoption, ...) = nullptr;
  CURLcode (*info)(CURL*, CURLINFO, ...) = nullptr;
  const char* (*error)(CURLcode) = nullptr;
  CURLM* (*init_multi)() = nullptr;
  CURLMcode (*cleanup_multi)(CURLM*) = nullptr;
  CURLMcode (*add)(CURLM*, CURL*) = nullptr;
  CURLMcode (*remove)(CURLM*, CURL*) = nullptr;
  CURLMcode (*step)(CURLM*, int*) = nullptr;
  CURLMcode (*poll)(CURLM*, curl_waitfd*, unsigned, int, int*) = nullptr;
  CURLMsg* (*message)(CURLM*, int*) = nullptr;
  curl_slist* (*append)(curl_slist*, const char*) = nullptr;
  void (*free_list)(curl_slist*) = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

Result<Curl> load_curl() {
  Curl curl;
  // The OpenSSL and the GnuTLS flavour of Debian, which are alike.
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr && find(library, "curl_easy_init", curl.init) &&
        find(library, "curl_easy_cleanup", curl.cleanup) &&
        find(library, "curl_easy_reset", curl.reset) &&
        find(library, "curl_easy_setopt", curl.set) &&
        find(library, "curl_easy_getinfo", curl.info) &&
        find(library, "curl_easy_strerror", curl.error) &&
        find(library, "curl_multi_init", curl.init_multi) &&
        find(library, "curl_multi_cleanup", curl.cleanup_multi) &&
        find(library, "curl_multi_add_handle", curl.add) &&
        find(library, "curl_multi_remove_handle", curl.remove) &&
        find(library, "curl_multi_perform", curl.step) &&
        find(library, "curl_multi_poll", curl.poll) &&
        find(library, "curl_multi_info_read", curl.message) &&
        find(library, "curl_slist_append", curl.append) &&
        find(library, "curl_slist_free_all", curl.free_list)) {
      return curl;
    }
  }
  return fail(ErrorCode::kUnsupported,
              "objects of s3:// are read with libcurl, which this host lacks: install libcurl "
              "(libcurl4 on Debian)");
}

/// Encodes what a URL does not take as it is. Source: RFC 3986, unreserved characters.
std::string encoded(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
  std::string result;
  for (const char c : text) {
    if (kPlain.contains(c) || (keep_slashes && c == '/')) {
      result += c;
    } else {
      result += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return result;
}

Result<std::string> decoded(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      // The encoding of forms, which servers use here, too.
      result += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    unsigned value = 0;
    const char* begin = text.data() + i + 1;
    if (i + 2 >= text.size() || std::from_chars(begin, begin + 2, value, 16).ptr != begin + 2) {
      return fail(ErrorCode::kCorruptData, "the name of an object is not encoded as asked for");
    }
    if (value == 0) return fail(ErrorCode::kCorruptData, "the name of an object has a zero byte");
    result += static_cast<char>(value);
    i += 2;
  }
  return result;
}

/// Returns what is in the next element of a name, and moves behind it; nothing if there is none.
std::optional<std::string_view> element(std::string_view& xml, std::string_view name) {
  const std::string open = fmt::format("<{}>", name);
  const std::string close = fmt::format("</{}>", name);
  const std::size_t begin = xml.find(open);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = xml.find(close, begin);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view inside = xml.substr(begin + open.size(), end - begin - open.size());
  xml.remove_prefix(end + close.size());
  return inside;
}

/// What a request brings.
struct Received {
  std::span<std::byte> buffer;  ///< for the object's bytes, if `text` is not wanted.
  std::size_t filled = 0;
  bool wants_text = false;
  std::string text;  ///< of a listing, or of an error.
  std::size_t header_bytes = 0;
  const Curl* curl = nullptr;
  CURL* handle = nullptr;
  bool too_large = false;
};

/// A connection to the server, and what waits for it.
struct Connection {
  CURL* handle = nullptr;
  CURLM* multi = nullptr;
};

std::size_t take_header(char* /*data*/, std::size_t size, std::size_t count, void* to) {
  auto& received = *static_cast<Received*>(to);
  received.header_bytes += size * count;
  received.too_large = received.header_bytes > kMostHeaders;
  return received.too_large ? 0 : size * count;
}

std::size_t take(char* data, std::size_t size, std::size_t count, void* to) {
  auto& received = *static_cast<Received*>(to);
  const std::size_t bytes = size * count;
  long status = 0;
  received.curl->info(received.handle, CURLINFO_RESPONSE_CODE, &status);
  if (received.wants_text || status < 200 || status >= 300) {
    if (received.text.size() + bytes > kMostText) {
      received.too_large = true;
      return 0;
    }
    received.text.append(data, bytes);
    return bytes;
  }
  // A server that ignores the range sends more than was asked for.
  if (bytes > received.buffer.size() - received.filled) {
    received.too_large = true;
    return 0;
  }
  std::memcpy(received.buffer.data() + received.filled, data, bytes);
  received.filled += bytes;
  return bytes;
}

/// Why a request failed, and whether to try again.
struct Failure {
  std::string reason;
  ErrorCode code = ErrorCode::kIo;
  bool may_pass = false;
};

}  // namespace

struct ObjectStore::State {
  State(const Curl& functions, std::string used_bucket, ObjectStoreSettings used_settings)
      : curl(functions), bucket(std::move(used_bucket)), settings(std::move(used_settings)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    for (const Connection& connection : idle) close(connection);
  }

  /// Sends a request until it succeeds or has failed for good.
  Result<void> get(const std::string& url, const std::string& what, std::string_view range,
                   Received& received) GPEMU_EXCLUDES(mutex);
  std::optional<Failure> try_once(const Connection& connection, const std::string& url,
                                  std::string_view range, Received& received,
                                  const sim::Wait& wait);
  CURLcode perform(const Connection& connection, const sim::Wait& wait) const;
  [[nodiscard]] std::optional<Failure> failure_of(CURLcode code, long status,
                                                  const Received& received,
                                                  const sim::Wait& wait) const;
  [[nodiscard]] std::string base_url() const;
  Result<Connection> connection() GPEMU_EXCLUDES(mutex);
  void close(const Connection& connection) const {
    if (connection.handle != nullptr) curl.cleanup(connection.handle);
    if (connection.multi != nullptr) curl.cleanup_multi(connection.multi);
  }

  const Curl curl;
  const std::string bucket;
  const ObjectStoreSettings settings;
  Mutex mutex;
  std::vector<Connection> idle GPEMU_GUARDED_BY(mutex);  ///< each keeps its connection.
  sim::RealClock clock;                                  ///< libcurl knows no other.
};

std::string ObjectStore::State::base_url() const {
  // With the bucket in the path, which every server understands.
  const std::string endpoint = settings.endpoint.empty()
                                   ? fmt::format("https://s3.{}.amazonaws.com", settings.region)
                                   : settings.endpoint;
  return fmt::format("{}/{}", endpoint, encoded(bucket, false));
}

std::optional<Failure> ObjectStore::State::failure_of(CURLcode code, long status,
                                                      const Received& received,
                                                      const sim::Wait& wait) const {
  if (received.too_large) {
    return Failure{.reason = "the server sends more than was asked for"};
  }
  if (code != CURLE_OK && wait.is_stopped()) {
    return Failure{.reason = "stopped", .code = ErrorCode::kInterrupted};
  }
  if (code != CURLE_OK && wait.is_over()) {
    return Failure{.reason = fmt::format("the server has not answered as a whole for {:g} s "
                                         "(--patience)",
                                         to_seconds(settings.patience))};
  }
  if (code != CURLE_OK) return Failure{.reason = curl.error(code), .may_pass = true};
  if (status >= 200 && status < 300) return std::nullopt;
  std::string_view xml = received.text;
  const auto word = element(xml, "Code");
  Failure failure{
      .reason = fmt::format("the server answers {}{}", status,
                            word ? fmt::format(" ({})", printable(word->substr(0, 64))) : ""),
      .code = status == 404 ? ErrorCode::kNotFound : ErrorCode::kIo,
      // 429: too many requests.
      .may_pass = status >= 500 || status == 429};
  if (status == 403) {
    failure.reason += settings.key.empty() ? ": set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                                           : ": check the keys and AWS_REGION";
  }
  return failure;
}

/// Moves a request on until it has ended, or the wait is over.
CURLcode ObjectStore::State::perform(const Connection& connection, const sim::Wait& wait) const {
  if (curl.add(connection.multi, connection.handle) != CURLM_OK) return CURLE_FAILED_INIT;
  CURLcode code = CURLE_OPERATION_TIMEDOUT;
  int running = 1;
  while (curl.step(connection.multi, &running) == CURLM_OK && running > 0 && !wait.is_over()) {
    curl.poll(connection.multi, nullptr, 0, static_cast<int>(wait.step().count()), nullptr);
  }
  int left = 0;
  if (const CURLMsg* const message = curl.message(connection.multi, &left); message != nullptr) {
    code = message->data.result;
  }
  curl.remove(connection.multi, connection.handle);
  return code;
}

std::optional<Failure> ObjectStore::State::try_once(const Connection& connection,
                                                    const std::string& url, std::string_view range,
                                                    Received& received, const sim::Wait& wait) {
  CURL* const handle = connection.handle;
  curl.reset(handle);
  const std::string ranged(range);
  const std::string signing = fmt::format("aws:amz:{}:s3", settings.region);
  const std::string user = fmt::format("{}:{}", settings.key, settings.secret);
  curl_slist* headers = nullptr;
  if (!settings.token.empty()) {
    headers = curl.append(headers, ("x-amz-security-token: " + settings.token).c_str());
  }
  curl.set(handle, CURLOPT_URL, url.c_str());
  curl.set(handle, CURLOPT_NOSIGNAL, 1L);
  curl.set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl.set(handle, CURLOPT_PATH_AS_IS, 1L);
  curl.set(handle, CURLOPT_CONNECTTIMEOUT, kConnectS);
  curl.set(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl.set(handle, CURLOPT_LOW_SPEED_TIME, kSilenceS);
  curl.set(handle, CURLOPT_WRITEFUNCTION, &take);
  curl.set(handle, CURLOPT_WRITEDATA, &received);
  curl.set(handle, CURLOPT_HEADERFUNCTION, &take_header);
  curl.set(handle, CURLOPT_HEADERDATA, &received);
  if (!ranged.empty()) curl.set(handle, CURLOPT_RANGE, ranged.c_str());
  if (headers != nullptr) curl.set(handle, CURLOPT_HTTPHEADER, headers);
  CURLcode code = CURLE_OK;
  if (!settings.key.empty()) {
    code = curl.set(handle, CURLOPT_AWS_SIGV4, signing.c_str());
    curl.set(handle, CURLOPT_USERPWD, user.c_str());
  }
  if (code != CURLE_OK) {
    curl.free_list(headers);
    return Failure{.reason = "this host's libcurl cannot sign requests: it is older than 7.75",
                   .code = ErrorCode::kUnsupported};
  }
  received.filled = 0;
  received.header_bytes = 0;
  received.text.clear();
  received.too_large = false;
  received.curl = &curl;
  received.handle = handle;
  code = perform(connection, wait);
  long status = 0;
  curl.info(handle, CURLINFO_RESPONSE_CODE, &status);
  curl.free_list(headers);
  return failure_of(code, status, received, wait);
}

Result<Connection> ObjectStore::State::connection() {
  {
    const Lock lock(mutex);
    if (!idle.empty()) {
      const Connection connection = idle.back();
      idle.pop_back();
      return connection;
    }
  }
  const Connection connection{.handle = curl.init(), .multi = curl.init_multi()};
  if (connection.handle != nullptr && connection.multi != nullptr) return connection;
  close(connection);
  return fail(ErrorCode::kResourceLimit, "libcurl does not start");
}

Result<void> ObjectStore::State::get(const std::string& url, const std::string& what,
                                     std::string_view range, Received& received) {
  static const std::atomic<bool> never = false;
  const sim::Wait wait{.clock = clock,
                       .until = clock.now() + settings.patience,
                       .stop = settings.stop != nullptr ? *settings.stop : never};
  GPEMU_ASSIGN(const Connection used, connection());
  std::optional<Failure> failure;
  int tries = 0;
  for (auto pause = kFirstPause; tries < kRequestTries; pause *= 4) {
    ++tries;
    failure = try_once(used, url, range, received, wait);
    if (!failure || !failure->may_pass || tries == kRequestTries) break;
    std::this_thread::sleep_for(pause);
  }
  {
    const Lock lock(mutex);
    idle.push_back(used);
  }
  if (!failure) return {};
  return fail(failure->code, "cannot read {}: {}{}", printable(what), failure->reason,
              tries > 1 ? fmt::format(", {} times", tries) : "");
}

ObjectStoreSettings object_store_settings(const Lookup& lookup) {
  const auto value = [&lookup](const char* name) {
    const char* found = lookup(name);
    return std::string(found != nullptr ? found : "");
  };
  ObjectStoreSettings settings{.endpoint = value("AWS_ENDPOINT_URL"),
                               .key = value("AWS_ACCESS_KEY_ID"),
                               .secret = value("AWS_SECRET_ACCESS_KEY"),
                               .token = value("AWS_SESSION_TOKEN")};
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (const std::string region = value(name); !region.empty()) {
      settings.region = region;
      break;
    }
  }
  return settings;
}

Result<ObjectPage> parse_object_page(std::string_view xml) {
  if (!xml.contains("<ListBucketResult")) {
    return fail(ErrorCode::kCorruptData, "the server's answer is no list of objects");
  }
  ObjectPage page;
  std::string_view rest = xml;
  while (const auto contents = element(rest, "Contents")) {
    std::string_view of_key = *contents;
    std::string_view of_size = *contents;
    const auto key = element(of_key, "Key");
    const auto size = element(of_size, "Size");
    StoredObject object;
    const auto parsed =
        size ? std::from_chars(size->data(), size->data() + size->size(), object.bytes)
             : std::from_chars_result{.ptr = nullptr, .ec = std::errc()};
    if (!key || !size || parsed.ec != std::errc() || parsed.ptr != size->data() + size->size()) {
      return fail(ErrorCode::kCorruptData, "an object in the server's list has no key or size");
    }
    GPEMU_ASSIGN(object.key, decoded(*key));
    page.objects.push_back(std::move(object));
  }
  std::string_view of_token = xml;
  if (const auto next = element(of_token, "NextContinuationToken")) {
    // The only characters of base64 that XML could encode differently are not in need of it.
    page.next = std::string(*next);
  }
  return page;
}

Duration time_of_listing(Duration patience, std::size_t objects) {
  return patience + kTimeOfAKey * static_cast<std::int64_t>(objects);
}

void ObjectList::add(const ObjectPage& page) {
  Page kept;
  Bytes bytes = 0;
  for (const StoredObject& object : page.objects) bytes += object.key.size() + 1;
  kept.keys.reserve(bytes);
  kept.sizes.reserve(page.objects.size());
  for (const StoredObject& object : page.objects) {
    kept.keys.append(object.key).push_back('\0');
    kept.sizes.push_back(object.bytes);
  }
  size_ += page.objects.size();
  bytes_ += sizeof kept + bytes + page.objects.size() * sizeof(Bytes);
  pages_.push_back(std::move(kept));
}

std::vector<ObjectList::Entry> ObjectList::entries() const {
  std::vector<Entry> entries;
  entries.reserve(size_);
  for (const Page& page : pages_) {
    std::size_t begin = 0;
    for (const Bytes size : page.sizes) {
      const std::string_view key = page.keys.data() + begin;
      entries.push_back({.key = key, .bytes = size});
      begin += key.size() + 1;
    }
  }
  return entries;
}

bool is_object_path(std::string_view path) {
  return path.starts_with("s3:/");
}

ObjectStore::ObjectStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
ObjectStore::~ObjectStore() = default;

Result<std::shared_ptr<ObjectStore>> ObjectStore::open(const std::string& bucket,
                                                       ObjectStoreSettings settings) {
  if (bucket.empty()) {
    return fail(ErrorCode::kInvalidArgument, "s3:// needs a bucket: s3://BUCKET/FOLDER");
  }
  if (!settings.endpoint.empty() && !settings.endpoint.starts_with("http://") &&
      !settings.endpoint.starts_with("https://")) {
    return fail(ErrorCode::kInvalidArgument,
                "AWS_ENDPOINT_URL is {}: it must begin with http:// or https://",
                printable(settings.endpoint));
  }
  GPEMU_ASSIGN(const Curl curl, load_curl());
  return std::shared_ptr<ObjectStore>(
      new ObjectStore(std::make_unique<State>(curl, bucket, std::move(settings))));
}

std::string ObjectStore::root() const {
  return fmt::format("s3://{}/", state_->bucket);
}

Result<ObjectList> ObjectStore::list(const std::string& prefix) const {
  const std::string what = fmt::format("s3://{}/{}", state_->bucket, prefix);
  const TimePoint begin = state_->clock.now();
  ObjectList objects;
  std::string token;
  while (true) {
    // Signed in the order of names.
    std::string url = state_->base_url() + "/?";
    if (!token.empty()) url += fmt::format("continuation-token={}&", encoded(token, false));
    url += fmt::format("encoding-type=url&list-type=2&prefix={}", encoded(prefix, false));
    Received received{.wants_text = true};
    GPEMU_TRY(state_->get(url, what, {}, received));
    Result<ObjectPage> page = parse_object_page(received.text);
    if (!page) {
      return fail(page.error().code, "cannot read {}: {}", printable(what), page.error().message);
    }
    objects.add(*page);
    if (page->next.empty()) return objects;
    if (page->next == token || page->objects.empty()) break;
    if (objects.bytes() > kMostListed) {
      return fail(ErrorCode::kResourceLimit,
                  "cannot read {}: the server's list has no end after {} objects, whose names take "
                  "more than {} MB: store the images in larger files",
                  printable(what), objects.size(), kMostListed / 1'000'000);
    }
    const Duration most = time_of_listing(state_->settings.patience, objects.size());
    if (state_->clock.now() - begin > most) {
      return fail(ErrorCode::kIo, "cannot read {}: the server has listed only {} objects in {:g} s",
                  printable(what), objects.size(), to_seconds(most));
    }
    token = std::move(page->next);
  }
  return fail(ErrorCode::kCorruptData, "cannot read {}: the server's list does not end",
              printable(what));
}

Result<Bytes> ObjectStore::read(const std::string& path, Bytes offset,
                                std::span<std::byte> buffer) const {
  if (buffer.empty()) return Bytes{0};
  GPEMU_CHECK(path.starts_with(root()), "the object is in the bucket");
  const std::string_view key = std::string_view(path).substr(root().size());
  Received received{.buffer = buffer};
  GPEMU_TRY(state_->get(state_->base_url() + "/" + encoded(key, true), path,
                        fmt::format("{}-{}", offset, offset + buffer.size() - 1), received));
  return received.filled;
}

}  // namespace gpemu::data
