// SPDX-License-Identifier: Apache-2.0
// The only file that includes headers of gRPC, which take the compiler longer than the rest of the
// module. Messages are bytes of our own, so that neither Protocol Buffers nor its compiler is
// needed, and a batch is copied once on each side.
#include <chrono>
#include <cstdlib>
#include <grpc/support/log.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <thread>
#include <utility>
#include <vector>

#include "gpemu/base/thread.hpp"
#include "gpemu/service/rpc.hpp"

namespace gpemu::service {
namespace {

/// Before the codes of errors in the details of a status.
constexpr std::string_view kErrorMark = "gpemu:";

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

/// One thread that answers one call after the other.
class Answering {
 public:
  Answering(grpc::AsyncGenericService& service, std::unique_ptr<grpc::ServerCompletionQueue> queue,
            const RpcHandler& handler)
      : service_(service), queue_(std::move(queue)), handler_(handler) {}
  Answering(Answering&&) = default;

  bool start() {
    thread_ = start_thread("gpemu-rpc", [this] {
      while (answer()) {
      }
    });
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
  bool next(bool& good) {
    void* tag = nullptr;
    return queue_->Next(&tag, &good);
  }

  bool answer() {
    grpc::GenericServerContext context;
    grpc::GenericServerAsyncReaderWriter stream(&context);
    bool good = false;
    service_.RequestCall(&context, &stream, queue_.get(), queue_.get(), this);
    if (!next(good) || !good) return false;
    grpc::ByteBuffer request;
    stream.Read(&request, this);
    if (!next(good)) return false;
    if (!good) return true;  // The caller has gone.
    const Result<Message> reply = handler_(context.method(), message_of(request));
    if (reply) {
      stream.WriteAndFinish(buffer_of(*reply), {}, grpc::Status::OK, this);
    } else {
      stream.Finish(
          {grpc::StatusCode::FAILED_PRECONDITION, reply.error().message,
           std::string(kErrorMark) + std::to_string(static_cast<int>(reply.error().code))},
          this);
    }
    return next(good);
  }

  grpc::AsyncGenericService& service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const RpcHandler& handler_;
  std::thread thread_;
};

class GrpcServer final : public RpcServer {
 public:
  explicit GrpcServer(RpcHandler handler) : handler_(std::move(handler)) {}
  ~GrpcServer() override {
    if (!server_) return;
    // Calls that wait for a batch end within this time.
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    for (Answering& thread : threads_) thread.end();
  }

  Result<void> start(const std::string& address, int threads) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
    // Two servers must not share a port.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(-1);
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
  explicit GrpcChannel(const std::string& address) : address_(address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    // Each channel has a connection of its own, as between other processes.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  }

  Result<Message> call(std::string_view method, std::span<const std::byte> request,
                       Duration patience) override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + patience);
    grpc::CompletionQueue queue;
    const grpc::ByteBuffer sent = buffer_of(request);
    grpc::ByteBuffer reply;
    grpc::Status status;
    auto call = stub_->PrepareUnaryCall(&context, std::string(method), sent, &queue);
    call->StartCall();
    call->Finish(&reply, &status, this);
    void* tag = nullptr;
    bool good = false;
    static_cast<void>(queue.Next(&tag, &good));
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
  Result<std::unique_ptr<RpcServer>> serve(const std::string& address, int threads,
                                           RpcHandler handler) override {
    auto server = std::make_unique<GrpcServer>(std::move(handler));
    GPEMU_TRY(server->start(address, threads));
    return server;
  }
  std::unique_ptr<RpcChannel> connect(const std::string& address) override {
    return std::make_unique<GrpcChannel>(address);
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
