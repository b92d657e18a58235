// SPDX-License-Identifier: Apache-2.0
// The only file that includes headers of gRPC, which take the compiler longer than the rest of the
// module. Messages are bytes of our own, so that neither Protocol Buffers nor its compiler is
// needed, and a batch is copied once on each side.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <grpc/support/log.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gpemu/base/thread.hpp"
#include "gpemu/service/rpc.hpp"

namespace gpemu::service {
namespace {

/// Before the codes of errors in the details of a status.
constexpr std::string_view kErrorMark = "gpemu:";

using namespace std::chrono_literals;

/// A request that has not come in this time is not what a thread waits for.
constexpr auto kRequestTime = 10ms;
/// How long a caller has for its request, and for taking the answer. Also for a handshake.
constexpr auto kCallTime = 10s;
/// Calls of one thread whose requests or answers are on their way.
constexpr std::size_t kMostCalls = 8;
/// Calls over one connection at a time: a process makes few.
constexpr int kMostStreams = 64;
/// Source: gRPC's own default, which is the same on both sides.
constexpr int kMostHeaders = 8192;
/// Calls that wait for a batch end within this time.
constexpr auto kShutdownTime = 500ms;

grpc::ByteBuffer buffer_of(std::span<const std::byte> bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  return {&slice, 1};
}

Message message_of(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  Message message;
  if (!buffer.Dump(&slices).ok()) return message;
  message.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    const auto* begin = reinterpret_cast<const std::byte*>(slice.begin());
    message.insert(message.end(), begin, begin + slice.size());
  }
  return message;
}

/// A call from before its arrival to its answer. Its address is the tag of what it waits for.
struct Call {
  enum class State : std::uint8_t { kArriving, kReading, kAnswering };
  State state = State::kArriving;
  std::chrono::steady_clock::time_point since;  ///< it has arrived.
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
  grpc::ByteBuffer request;
};

/// One thread that answers one call after the other. Those whose request does not come keep nobody
/// waiting: the oldest of them makes room.
class Answering {
 public:
  Answering(grpc::AsyncGenericService& service, std::unique_ptr<grpc::ServerCompletionQueue> queue,
            const RpcHandler& handler)
      : service_(service), queue_(std::move(queue)), handler_(handler) {}
  Answering(Answering&&) = default;

  bool start() {
    thread_ = start_thread("gpemu-rpc", [this] { answer_calls(); });
    return thread_.joinable();
  }
  /// Requires: the server has been shut down.
  void end() {
    if (thread_.joinable()) thread_.join();
    queue_->Shutdown();
    void* tag = nullptr;
    bool good = false;
    while (queue_->Next(&tag, &good)) {
    }
  }

 private:
  void answer_calls() {
    accept();
    while (!calls_.empty()) {
      void* tag = nullptr;
      bool good = false;
      const bool only_arrives = calls_.size() == 1 && accepts_;
      const auto until = only_arrives ? std::chrono::system_clock::time_point::max()
                                      : std::chrono::system_clock::now() + kRequestTime;
      const auto next = queue_->AsyncNext(&tag, &good, until);
      if (next == grpc::CompletionQueue::SHUTDOWN) return;
      if (next == grpc::CompletionQueue::GOT_EVENT) advance(*static_cast<Call*>(tag), good);
      cancel_silent();
      if (!accepts_ && !ended_ && (next == grpc::CompletionQueue::TIMEOUT || !reads())) accept();
    }
  }

  void accept() {
    Call& call = *calls_.emplace_back(std::make_unique<Call>());
    accepts_ = true;
    service_.RequestCall(&call.context, &call.stream, queue_.get(), queue_.get(), &call);
  }

  [[nodiscard]] bool reads() const {
    return std::ranges::any_of(
        calls_, [](const auto& call) { return call->state == Call::State::kReading; });
  }

  void advance(Call& call, bool good) {
    if (call.state == Call::State::kArriving) accepts_ = false;
    if (!good || call.state == Call::State::kAnswering) {
      // The server has been shut down, the caller has gone, or it has its answer.
      ended_ = ended_ || call.state == Call::State::kArriving;
      std::erase_if(calls_, [&call](const auto& entry) { return entry.get() == &call; });
    } else if (call.state == Call::State::kArriving) {
      call.state = Call::State::kReading;
      call.since = std::chrono::steady_clock::now();
      call.stream.Read(&call.request, &call);
    } else {
      answer(call);
    }
  }

  void answer(Call& call) {
    call.state = Call::State::kAnswering;
    const Result<Message> reply = handler_(call.context.method(), message_of(call.request));
    if (reply) {
      call.stream.WriteAndFinish(buffer_of(*reply), {}, grpc::Status::OK, &call);
    } else {
      call.stream.Finish(
          {grpc::StatusCode::FAILED_PRECONDITION, reply.error().message,
           std::string(kErrorMark) + std::to_string(static_cast<int>(reply.error().code))},
          &call);
    }
  }

  /// Cancels the calls that have been there for too long, or are too many. They end soon after.
  void cancel_silent() {
    const auto now = std::chrono::steady_clock::now();
    std::size_t others = calls_.size();
    for (const auto& call : calls_) {
      if (call->state == Call::State::kArriving) continue;
      if (others <= kMostCalls && now - call->since < kCallTime) break;
      call->context.TryCancel();
      --others;
    }
  }

  grpc::AsyncGenericService& service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const RpcHandler& handler_;
  std::vector<std::unique_ptr<Call>> calls_;  ///< the oldest one first.
  bool accepts_ = false;                      ///< one of them is about to arrive.
  bool ended_ = false;
  std::thread thread_;
};

class GrpcServer final : public RpcServer {
 public:
  explicit GrpcServer(RpcHandler handler) : handler_(std::move(handler)) {}
  ~GrpcServer() override {
    if (!server_) return;
    server_->Shutdown(std::chrono::system_clock::now() + kShutdownTime);
    for (Answering& thread : threads_) thread.end();
  }

  Result<void> start(const Rpc::Serving& serving) {
    const auto& [address, threads, most_request] = serving;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
    // Two servers must not share a port.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(static_cast<int>(most_request));
    builder.SetMaxSendMessageSize(-1);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMostHeaders);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostStreams);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                               static_cast<int>(std::chrono::milliseconds(kCallTime).count()));
    builder.RegisterAsyncGenericService(&service_);
    threads_.reserve(static_cast<std::size_t>(threads));
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back(service_, builder.AddCompletionQueue(), handler_);
    }
    server_ = builder.BuildAndStart();
    if (!server_ || port_ <= 0) {
      server_.reset();
      return fail(ErrorCode::kUnavailable, "cannot listen at {}: is the port in use?", address);
    }
    for (Answering& thread : threads_) {
      if (!thread.start()) {
        return fail(ErrorCode::kResourceLimit, "cannot start {} threads", threads);
      }
    }
    return {};
  }

  [[nodiscard]] int port() const override { return port_; }

 private:
  RpcHandler handler_;
  grpc::AsyncGenericService service_;
  std::vector<Answering> threads_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

class GrpcChannel final : public RpcChannel {
 public:
  GrpcChannel(const std::string& address, Bytes most_reply) : address_(address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(static_cast<int>(most_reply));
    arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMostHeaders);
    arguments.SetMaxSendMessageSize(-1);
    // Each channel has a connection of its own, as between other processes.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  }

  Result<Message> call(std::string_view method, std::span<const std::byte> request,
                       const sim::Wait& wait) override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + (wait.until - wait.clock.now()));
    grpc::CompletionQueue queue;
    const grpc::ByteBuffer sent = buffer_of(request);
    grpc::ByteBuffer reply;
    grpc::Status status;
    auto call = stub_->PrepareUnaryCall(&context, std::string(method), sent, &queue);
    call->StartCall();
    call->Finish(&reply, &status, this);
    void* tag = nullptr;
    bool good = false;
    while (queue.AsyncNext(&tag, &good, std::chrono::system_clock::now() + sim::kLook) ==
           grpc::CompletionQueue::TIMEOUT) {
      if (wait.is_over()) context.TryCancel();
    }
    if (!status.ok() && wait.is_stopped()) return fail(ErrorCode::kInterrupted, "stopped");
    if (status.ok()) return message_of(reply);
    const std::string& details = status.error_details();
    if (details.starts_with(kErrorMark)) {
      const int code = std::atoi(details.c_str() + kErrorMark.size());
      return fail(static_cast<ErrorCode>(code), "{}", status.error_message());
    }
    return fail(ErrorCode::kUnavailable, "{} does not answer: {}", address_,
                status.error_message());
  }

 private:
  std::string address_;
  std::unique_ptr<grpc::GenericStub> stub_;
};

class GrpcRpc final : public Rpc {
 public:
  Result<std::unique_ptr<RpcServer>> serve(const Serving& serving, RpcHandler handler) override {
    auto server = std::make_unique<GrpcServer>(std::move(handler));
    GPEMU_TRY(server->start(serving));
    return server;
  }
  std::unique_ptr<RpcChannel> connect(const std::string& address, Bytes most_reply) override {
    return std::make_unique<GrpcChannel>(address, most_reply);
  }
};

}  // namespace
}  // namespace gpemu::service

extern "C" __attribute__((visibility("default"))) gpemu::service::Rpc* gpemu_grpc() {
  // Errors come back as values; gRPC would also write them to standard error.
  gpr_set_log_function([](gpr_log_func_args*) {});
  static gpemu::service::GrpcRpc rpc;
  return &rpc;
}
