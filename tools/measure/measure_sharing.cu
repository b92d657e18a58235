// SPDX-License-Identifier: Apache-2.0
//
// A worker of measure_sharing.py. It reads commands, one a line, as "name key=value ...", prints
// READY, waits for "GO <CLOCK_MONOTONIC in ns>", measures, and prints "DONE {json}". The end of the
// file has the commands.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <functional>
#include <map>
#include <string>
#include <time.h>
#include <unistd.h>
#include <vector>

using u64 = unsigned long long;
using i64 = long long;

static std::string g_error;
#define CK(call)                                                                           \
  do {                                                                                     \
    cudaError_t ck_ = (call);                                                              \
    if (ck_ != cudaSuccess) {                                                              \
      char ck_text_[300];                                                                  \
      snprintf(ck_text_, sizeof ck_text_, "line %d: %s: %d %s", __LINE__, #call, (int)ck_, \
               cudaGetErrorName(ck_));                                                     \
      throw std::string(ck_text_);                                                         \
    }                                                                                      \
  } while (0)

static i64 mono() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (i64)t.tv_sec * 1000000000LL + t.tv_nsec;
}
static void spin_until(i64 t) {
  while (mono() < t) {
  }
}
static void sleep_us(i64 us) {
  timespec t{(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
  nanosleep(&t, nullptr);
}

// ------------------------------------------------------------------ device code
struct Rec {
  u64 start, end;
};
constexpr u64 kGapNs = 15000;
constexpr unsigned kGapCap = 60000;

struct Log {
  Rec* gaps;
  unsigned* gap_count;
  unsigned* sms;  // a bit per multiprocessor
  float* sink;
};

__device__ __forceinline__ u64 now() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
__device__ __forceinline__ unsigned smid() {
  unsigned s;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(s));
  return s;
}
__device__ __forceinline__ void begin(Rec* rec, const Log& log) {
  if (rec) atomicMin(&rec->start, now());
  const unsigned s = smid();
  if (log.sms) atomicOr(&log.sms[s / 32], 1u << (s % 32));
}

// Arithmetic: `chunks` times 64 dependent multiply-adds per thread. The first and the last block
// note when they were stopped: the older of two blocks on a multiprocessor may end long before the
// other.
__global__ void __launch_bounds__(1024, 2) compute(int chunks, Rec* rec, Log log) {
  const bool first = threadIdx.x == 0;
  const bool watch = first && (blockIdx.x == 0 || blockIdx.x + 1 == gridDim.x) && log.gaps;
  if (first) begin(rec, log);
  u64 last = watch ? now() : 0;
  float x = threadIdx.x * 1e-6f;
  for (int i = 0; i < chunks; ++i) {
#pragma unroll
    for (int k = 0; k < 64; ++k) x = fmaf(x, 0.999f, 1e-7f);
    if (watch && ((i & 7) == 7 || i + 1 == chunks)) {
      const u64 t = now();
      if (t - last > kGapNs) {
        const unsigned place = atomicAdd(log.gap_count, 1u);
        if (place < kGapCap) log.gaps[place] = Rec{last, t};
      }
      last = t;
    }
  }
  if (x == 12345.678f) log.sink[0] = x;
  __syncthreads();
  if (first && rec) atomicMax(&rec->end, now());
}

// Copies n elements of 16 bytes within buffers of mask + 1 elements.
__global__ void __launch_bounds__(1024, 2)
    memory(const uint4* src, uint4* dst, u64 n, u64 mask, Rec* rec, Log log) {
  const bool first = threadIdx.x == 0;
  if (first) begin(rec, log);
  const u64 step = (u64)gridDim.x * blockDim.x;
  u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  for (; i + 3 * step < n; i += 4 * step) {
    const uint4 a = src[i & mask], b = src[(i + step) & mask], c = src[(i + 2 * step) & mask],
                d = src[(i + 3 * step) & mask];
    dst[i & mask] = a;
    dst[(i + step) & mask] = b;
    dst[(i + 2 * step) & mask] = c;
    dst[(i + 3 * step) & mask] = d;
  }
  for (; i < n; i += step) dst[i & mask] = src[i & mask];
  __syncthreads();
  if (first && rec) atomicMax(&rec->end, now());
}

// Waits on the timer.
__global__ void wait(u64 ns, Rec* rec, Log log) {
  const bool first = threadIdx.x == 0;
  if (first) begin(rec, log);
  const u64 t0 = now();
  while (now() - t0 < ns) {
  }
  if (first && rec) atomicMax(&rec->end, now());
}
__global__ void nop() {}
__global__ void stamp(Rec* rec) {
  rec->start = now();
  rec->end = now();
}
__global__ void clear(Rec* rec, u64 n) {
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x)
    rec[i] = Rec{~0ull, 0};
}
__global__ void ticks(u64* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = now();
}
__global__ void clocks(u64* out, u64 ns) {
  const u64 t0 = now();
  const i64 c0 = clock64();
  while (now() - t0 < ns) {
  }
  out[0] = now() - t0;
  out[1] = (u64)(clock64() - c0);
}

// ------------------------------------------------------------------ host
using Keys = std::map<std::string, std::string>;
struct Json {
  std::string text = "{";
  void raw(const char* key, const std::string& value) {
    if (text.size() > 1) text += ", ";
    text += "\"" + std::string(key) + "\": " + value;
  }
  void num(const char* key, double value) {
    char b[64];
    snprintf(b, sizeof b, "%.10g", value);
    raw(key, b);
  }
  void str(const char* key, const std::string& v) {
    std::string q = "\"";
    for (char c : v) {
      if (c == '"' || c == '\\') q += '\\';
      q += (c >= ' ' ? c : ' ');
    }
    raw(key, q + "\"");
  }
  std::string done() const { return text + "}"; }
};
static std::string list(const std::vector<double>& v) {
  std::string s = "[";
  char b[40];
  for (size_t i = 0; i < v.size(); ++i) {
    snprintf(b, sizeof b, "%s%.9g", i ? ", " : "", v[i]);
    s += b;
  }
  return s + "]";
}
static double pct(std::vector<double> v, double p) {
  if (v.empty()) return -1;
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, (size_t)(p * (v.size() - 1) + 0.5))];
}
// {n, min, median, p90, p99, max}
static std::string stats(const std::vector<double>& v) {
  Json j;
  j.num("n", (double)v.size());
  if (!v.empty()) {
    j.num("min", pct(v, 0));
    j.num("p50", pct(v, .5));
    j.num("p90", pct(v, .9));
    j.num("p99", pct(v, .99));
    j.num("max", pct(v, 1));
  }
  return j.done();
}

static i64 geti(const Keys& k, const char* name, i64 other) {
  auto it = k.find(name);
  return it == k.end() ? other : atoll(it->second.c_str());
}
static std::string gets(const Keys& k, const char* name, const char* other) {
  auto it = k.find(name);
  return it == k.end() ? other : it->second;
}

constexpr u64 kBuffer = 1ull << 30;  // of memory kernels
static Log g_log{};
static uint4 *g_src = nullptr, *g_dst = nullptr;
static Rec* g_recs = nullptr;
constexpr u64 kRecs = 450000;
static char *g_pin_up = nullptr, *g_pin_down = nullptr, *g_dev_up = nullptr, *g_dev_down = nullptr;
static double g_context_ms = 0, g_setup_ms = 0;

static void setup() {
  const i64 t0 = mono();
  CK(cudaFree(nullptr));
  g_context_ms = (mono() - t0) / 1e6;
  CK(cudaMalloc(&g_recs, kRecs * sizeof(Rec)));
  CK(cudaMalloc(&g_log.gaps, kGapCap * sizeof(Rec)));
  CK(cudaMalloc(&g_log.gap_count, 4));
  CK(cudaMalloc(&g_log.sms, 32));
  CK(cudaMalloc(&g_log.sink, 4));
  CK(cudaFuncSetAttribute(compute, cudaFuncAttributeMaxDynamicSharedMemorySize, 220 * 1024));
  CK(cudaFuncSetAttribute(memory, cudaFuncAttributeMaxDynamicSharedMemorySize, 220 * 1024));
  g_setup_ms = (mono() - t0) / 1e6;
}
static void reset_log() {
  CK(cudaMemset(g_log.gap_count, 0, 4));
  CK(cudaMemset(g_log.sms, 0, 32));
}
static void clear_recs(u64 n) {
  clear<<<64, 256>>>(g_recs, n);
  CK(cudaGetLastError());
  CK(cudaDeviceSynchronize());
}
static unsigned count_sms() {
  unsigned bits[8] = {};
  CK(cudaMemcpy(bits, g_log.sms, 32, cudaMemcpyDeviceToHost));
  unsigned n = 0;
  for (unsigned b : bits) n += __builtin_popcount(b);
  return n;
}
static void need_buffers() {
  if (g_src) return;
  CK(cudaMalloc(&g_src, kBuffer));
  CK(cudaMalloc(&g_dst, kBuffer));
  CK(cudaMemset(g_src, 1, kBuffer));
  CK(cudaMemset(g_dst, 2, kBuffer));
  CK(cudaDeviceSynchronize());
}

struct Spec {
  char kind =
      'c';  // c: arithmetic, amount in chunks. m: memory, amount in MiB. w: waits, amount in ns.
  int blocks = 264, threads = 1024, smem = 0;
  i64 amount = 100;
};
static Spec spec_of(const std::string& text) {  // kind:blocks:threads:smem:amount
  Spec s;
  char kind = 'c';
  sscanf(text.c_str(), "%c:%d:%d:%d:%lld", &kind, &s.blocks, &s.threads, &s.smem, &s.amount);
  s.kind = kind;
  return s;
}
static void launch(const Spec& s, cudaStream_t stream, Rec* rec, const Log& log) {
  if (s.kind == 'c') {
    compute<<<s.blocks, s.threads, s.smem, stream>>>((int)s.amount, rec, log);
  } else if (s.kind == 'm') {
    memory<<<s.blocks, s.threads, s.smem, stream>>>(g_src, g_dst, (u64)s.amount << 16,
                                                    (kBuffer >> 4) - 1, rec, log);
  } else {
    wait<<<s.blocks, s.threads, s.smem, stream>>>((u64)s.amount, rec, log);
  }
}

static void ready_and_go() {
  printf("READY\n");
  fflush(stdout);
  char line[200];
  if (!fgets(line, sizeof line, stdin)) _exit(0);
  i64 t = 0;
  sscanf(line, "GO %lld", &t);
  spin_until(t);
}

// Returns globaltimer - CLOCK_MONOTONIC, and how far it may be off.
static double clock_offset(double* error) {
  double best = 1e18, offset = 0;
  for (int i = 0; i < 40; ++i) {
    const i64 a = mono();
    stamp<<<1, 1>>>(g_recs);
    CK(cudaDeviceSynchronize());
    const i64 b = mono();
    Rec r{};
    CK(cudaMemcpy(&r, g_recs, sizeof r, cudaMemcpyDeviceToHost));
    if (b - a < best) {
      best = (double)(b - a);
      offset = (double)((i64)r.start - (a + b) / 2);
    }
  }
  *error = best / 2;
  return offset;
}

static void cmd_timer(const Keys&, Json& j) {
  ready_and_go();
  const int n = 20000;
  u64* d;
  CK(cudaMalloc(&d, n * 8));
  ticks<<<1, 1>>>(d, n);
  CK(cudaDeviceSynchronize());
  std::vector<u64> v(n);
  CK(cudaMemcpy(v.data(), d, n * 8, cudaMemcpyDeviceToHost));
  std::map<u64, int> steps;
  int changes = 0;
  for (int i = 1; i < n; ++i) {
    const u64 step = v[i] - v[i - 1];
    ++steps[step];
    changes += step != 0;
  }
  std::vector<std::pair<int, u64>> top;
  for (auto& s : steps) top.push_back({s.second, s.first});
  std::sort(top.rbegin(), top.rend());
  std::vector<double> flat;
  for (size_t i = 0; i < top.size() && i < 8; ++i) {
    flat.push_back((double)top[i].second);
    flat.push_back(top[i].first);
  }
  j.raw("step_ns_and_count", list(flat));
  j.num("ns_per_read", (double)(v[n - 1] - v[0]) / n);
  j.num("changes", changes);
  clocks<<<1, 1>>>(d, 20000000);
  CK(cudaDeviceSynchronize());
  u64 c[2] = {};
  CK(cudaMemcpy(c, d, 16, cudaMemcpyDeviceToHost));
  j.num("sm_mhz", c[0] ? c[1] * 1e3 / c[0] : 0);
  double error = 0;
  const double offset = clock_offset(&error);
  j.num("globaltimer_minus_monotonic_ns", offset);
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  j.num("globaltimer_minus_realtime_ns", offset + mono() - (t.tv_sec * 1e9 + t.tv_nsec));
  j.num("offset_error_ns", error);
  CK(cudaFree(d));
}

static double alone_ns(const Spec& s, int reps) {
  std::vector<double> v;
  for (int i = 0; i < reps; ++i) {
    clear_recs(1);
    launch(s, 0, g_recs, Log{nullptr, nullptr, nullptr, g_log.sink});
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
    Rec r{};
    CK(cudaMemcpy(&r, g_recs, sizeof r, cudaMemcpyDeviceToHost));
    if (r.end > 0 && r.end > r.start) v.push_back((double)(r.end - r.start));
  }
  return v.empty() ? 0 : pct(v, .5);
}

static void cmd_calib(const Keys& k, Json& j) {
  Spec s = spec_of(gets(k, "spec", "c:264:1024:0:100"));
  if (s.kind == 'm') need_buffers();
  ready_and_go();
  const i64 end = mono() + 150000000;
  while (mono() < end) {  // clocks rise
    for (int i = 0; i < 20; ++i) launch(s, 0, nullptr, Log{nullptr, nullptr, nullptr, g_log.sink});
    CK(cudaDeviceSynchronize());
  }
  Spec a = s, b = s;
  a.amount = s.amount;
  b.amount = s.amount * 10;
  const double ta = alone_ns(a, 7), tb = alone_ns(b, 7);
  j.num("ns_small", ta);
  j.num("ns_large", tb);
  j.num("ns_per_unit", (tb - ta) / (b.amount - a.amount));
  j.num("ns_fixed", ta - (tb - ta) / (b.amount - a.amount) * a.amount);
}

static void cmd_loop(const Keys& k, Json& j) {
  const Spec s = spec_of(gets(k, "spec", "c:264:1024:0:100"));
  const i64 ms = geti(k, "ms", 1000), think = geti(k, "think", -1),
            batch = std::max<i64>(1, geti(k, "batch", 20));
  const std::string out = gets(k, "out", "");
  if (s.kind == 'm') need_buffers();
  clear_recs(kRecs);
  reset_log();
  cudaStream_t stream;
  CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaEvent_t ring[4];
  for (auto& e : ring) CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  launch(s, stream, nullptr, Log{nullptr, nullptr, nullptr, g_log.sink});
  CK(cudaStreamSynchronize(stream));
  std::vector<i64> host;
  host.reserve(1 << 16);
  ready_and_go();
  const i64 t0 = mono(), stop = t0 + ms * 1000000;
  u64 n = 0;
  if (think < 0) {
    for (u64 round = 0; mono() < stop && n + batch < kRecs; ++round) {
      if (round >= 4) CK(cudaEventSynchronize(ring[round % 4]));
      for (i64 i = 0; i < batch; ++i) launch(s, stream, g_recs + n++, g_log);
      CK(cudaEventRecord(ring[round % 4], stream));
    }
    CK(cudaGetLastError());
  } else {
    while (mono() < stop && n + 1 < kRecs) {
      const i64 a = mono();
      launch(s, stream, g_recs + n++, g_log);
      CK(cudaStreamSynchronize(stream));
      const i64 b = mono();
      host.push_back(a);
      host.push_back(b);
      if (think >= 300)
        sleep_us(think);
      else if (think > 0)
        spin_until(b + think * 1000);
    }
  }
  CK(cudaStreamSynchronize(stream));
  const i64 t1 = mono();
  unsigned gaps = 0;
  CK(cudaMemcpy(&gaps, g_log.gap_count, 4, cudaMemcpyDeviceToHost));
  gaps = std::min(gaps, kGapCap);
  std::vector<Rec> recs(n), stops(gaps);
  if (n) CK(cudaMemcpy(recs.data(), g_recs, n * sizeof(Rec), cudaMemcpyDeviceToHost));
  if (gaps) CK(cudaMemcpy(stops.data(), g_log.gaps, gaps * sizeof(Rec), cudaMemcpyDeviceToHost));
  if (!out.empty()) {
    if (FILE* f = fopen(out.c_str(), "wb")) {
      const i64 head[3] = {(i64)n, (i64)gaps, (i64)host.size() / 2};
      fwrite(head, 8, 3, f);
      fwrite(recs.data(), sizeof(Rec), n, f);
      fwrite(stops.data(), sizeof(Rec), gaps, f);
      fwrite(host.data(), 8, host.size(), f);
      fclose(f);
    }
  }
  std::vector<double> latency;
  for (size_t i = 0; i + 1 < host.size(); i += 2) latency.push_back((host[i + 1] - host[i]) / 1e3);
  j.num("n", (double)n);
  j.num("wall_ms", (t1 - t0) / 1e6);
  j.num("gaps", gaps);
  j.num("sms", count_sms());
  if (!latency.empty()) j.raw("launch_to_done_us", stats(latency));
  for (auto& e : ring) cudaEventDestroy(e);
  cudaStreamDestroy(stream);
}

static void cmd_copy(const Keys& k, Json& j) {
  const std::string dir = gets(k, "dir", "h2d");
  const u64 bytes = (u64)geti(k, "bytes", 64 << 20);
  const i64 ms = geti(k, "ms", 500);
  constexpr u64 kMost = 64ull << 20;
  if (!g_pin_up) {
    CK(cudaMallocHost(&g_pin_up, kMost));
    CK(cudaMallocHost(&g_pin_down, kMost));
    memset(g_pin_up, 1, kMost);
    memset(g_pin_down, 1, kMost);
    CK(cudaMalloc(&g_dev_up, kMost));
    CK(cudaMalloc(&g_dev_down, kMost));
  }
  struct Way {
    const char* name;
    char *to, *from;
    cudaMemcpyKind kind;
    cudaStream_t stream;
    cudaEvent_t events[2];
    int queued = 0, done = 0;
    std::vector<double> ends;
  };
  std::vector<Way> ways;
  if (dir == "h2d" || dir == "both")
    ways.push_back({"h2d", g_dev_up, g_pin_up, cudaMemcpyHostToDevice});
  if (dir == "d2h" || dir == "both")
    ways.push_back({"d2h", g_pin_down, g_dev_down, cudaMemcpyDeviceToHost});
  static std::vector<char> pageable;
  if (dir == "h2dp" || dir == "d2hp") pageable.resize(kMost, 1);
  if (dir == "h2dp") ways.push_back({"h2dp", g_dev_up, pageable.data(), cudaMemcpyHostToDevice});
  if (dir == "d2hp") ways.push_back({"d2hp", pageable.data(), g_dev_down, cudaMemcpyDeviceToHost});
  if (dir == "d2d") ways.push_back({"d2d", g_dev_up, g_dev_down, cudaMemcpyDeviceToDevice});
  for (auto& w : ways) {
    CK(cudaStreamCreateWithFlags(&w.stream, cudaStreamNonBlocking));
    for (auto& e : w.events) CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    CK(cudaMemcpyAsync(w.to, w.from, std::min(bytes, kMost), w.kind, w.stream));
    CK(cudaStreamSynchronize(w.stream));
  }
  ready_and_go();
  const i64 t0 = mono(), stop = t0 + ms * 1000000;
  for (bool going = true; going;) {
    going = false;
    for (auto& w : ways) {
      if (w.done < w.queued) {
        const cudaError_t status = cudaEventQuery(w.events[w.done % 2]);
        if (status == cudaSuccess) {
          ++w.done;
          w.ends.push_back((double)(mono() - t0));
        } else if (cudaGetLastError() != cudaErrorNotReady && status != cudaErrorNotReady) {
          CK(status);
        }
      }
      if (w.queued - w.done < 2 && mono() < stop) {
        CK(cudaMemcpyAsync(w.to, w.from, std::min(bytes, kMost), w.kind, w.stream));
        CK(cudaEventRecord(w.events[w.queued++ % 2], w.stream));
      }
      if (w.done < w.queued || mono() < stop) going = true;
    }
  }
  for (auto& w : ways) {
    std::vector<double> steps;
    for (size_t i = 1; i < w.ends.size(); ++i) steps.push_back((w.ends[i] - w.ends[i - 1]) / 1e3);
    Json one;
    one.num("copies", w.done);
    one.num("gb_per_s",
            w.ends.empty() ? 0 : w.done * (double)std::min(bytes, kMost) / w.ends.back());
    one.raw("us_per_copy", stats(steps));
    j.raw(w.name, one.done());
    for (auto& e : w.events) cudaEventDestroy(e);
    cudaStreamDestroy(w.stream);
  }
}

// Two kernels in two streams: a first. Times in us from a's start; without b, a alone.
static void cmd_pair(const Keys& k, Json& j) {
  const Spec a = spec_of(gets(k, "a", "c:66:1024:0:100"));
  const Spec b = spec_of(gets(k, "b", "c:0:1024:0:100"));
  const int reps = (int)geti(k, "reps", 5);
  if (a.kind == 'm' || b.kind == 'm') need_buffers();
  cudaStream_t sa, sb;
  CK(cudaStreamCreateWithFlags(&sa, cudaStreamNonBlocking));
  CK(cudaStreamCreateWithFlags(&sb, cudaStreamNonBlocking));
  ready_and_go();
  std::vector<double> ad, bs, be;
  for (int i = 0; i < reps + 1; ++i) {
    clear_recs(2);
    reset_log();
    CK(cudaDeviceSynchronize());
    launch(a, sa, g_recs, g_log);
    if (b.blocks > 0) launch(b, sb, g_recs + 1, g_log);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
    Rec r[2];
    CK(cudaMemcpy(r, g_recs, sizeof r, cudaMemcpyDeviceToHost));
    if (i == 0 || r[0].end == 0) continue;
    ad.push_back((double)(i64)(r[0].end - r[0].start) / 1e3);
    if (b.blocks > 0) {
      bs.push_back((double)(i64)(r[1].start - r[0].start) / 1e3);
      be.push_back((double)(i64)(r[1].end - r[0].start) / 1e3);
    }
  }
  j.num("a_us", pct(ad, .5));
  if (b.blocks > 0) {
    std::vector<double> bd;
    for (size_t i = 0; i < bs.size(); ++i) bd.push_back(be[i] - bs[i]);
    j.num("b_start_us", pct(bs, .5));
    j.num("b_end_us", pct(be, .5));
    j.num("b_us", pct(bd, .5));
  }
  j.num("sms", count_sms());
  cudaStreamDestroy(sa);
  cudaStreamDestroy(sb);
}

// An urgent kernel comes while another one runs.
static void cmd_prio(const Keys& k, Json& j) {
  const Spec low = spec_of(gets(k, "low", "c:52800:1024:0:100"));
  const Spec high = spec_of(gets(k, "high", "c:1:1024:0:20"));
  const i64 delay = geti(k, "delay_us", 3000);
  const int reps = (int)geti(k, "reps", 5), use = (int)geti(k, "prio", 1);
  int least = 0, greatest = 0;
  CK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t sl, sh;
  CK(cudaStreamCreateWithPriority(&sl, cudaStreamNonBlocking, least));
  CK(cudaStreamCreateWithPriority(&sh, cudaStreamNonBlocking, use ? greatest : least));
  ready_and_go();
  double error = 0;
  const double offset = clock_offset(&error);
  const double low_alone = alone_ns(low, 3), high_alone = alone_ns(high, 3);
  const Log log{nullptr, nullptr, nullptr, g_log.sink};
  std::vector<double> begin, end, low_end, low_time;
  for (int i = 0; i < reps; ++i) {
    clear_recs(2);
    const i64 t = mono();
    launch(low, sl, g_recs, log);
    spin_until(t + delay * 1000);
    const i64 h = mono();
    launch(high, sh, g_recs + 1, log);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
    Rec r[2];
    CK(cudaMemcpy(r, g_recs, sizeof r, cudaMemcpyDeviceToHost));
    if (r[1].end == 0) continue;
    const double h_gpu = h + offset;
    begin.push_back(((double)r[1].start - h_gpu) / 1e3);
    end.push_back(((double)r[1].end - h_gpu) / 1e3);
    low_end.push_back(((double)r[0].end - h_gpu) / 1e3);
    low_time.push_back((double)(i64)(r[0].end - r[0].start) / 1e3);
  }
  j.num("least", least);
  j.num("greatest", greatest);
  j.num("clock_error_us", error / 1e3);
  j.num("low_alone_us", low_alone / 1e3);
  j.num("high_alone_us", high_alone / 1e3);
  j.raw("high_start_after_launch_us", list(begin));
  j.raw("high_end_after_launch_us", list(end));
  j.raw("low_end_after_launch_us", list(low_end));
  j.raw("low_us", list(low_time));
  cudaStreamDestroy(sl);
  cudaStreamDestroy(sh);
}

// Many small kernels in many streams.
static void cmd_many(const Keys& k, Json& j) {
  const int streams = (int)geti(k, "streams", 32), per = (int)geti(k, "per", 1);
  const i64 us = geti(k, "us", 2000);
  const bool deep = geti(k, "deep", 1);  // all kernels of a stream one after another
  std::vector<cudaStream_t> s(streams);
  for (auto& x : s) CK(cudaStreamCreateWithFlags(&x, cudaStreamNonBlocking));
  const int n = streams * per;
  clear_recs(n);
  const Spec w{'w', 1, 32, 0, us * 1000};
  ready_and_go();
  for (int pass = 0; pass < 2; ++pass) {  // the first one loads and connects
    clear_recs(n);
    const i64 t0 = mono();
    for (int i = 0; i < n; ++i)
      launch(w, s[deep ? i / per : i % streams], g_recs + i,
             Log{nullptr, nullptr, nullptr, g_log.sink});
    j.num(pass ? "launch_us_each" : "first_launch_us_each", (mono() - t0) / 1e3 / n);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
  }
  std::vector<Rec> r(n);
  CK(cudaMemcpy(r.data(), g_recs, n * sizeof(Rec), cudaMemcpyDeviceToHost));
  std::vector<std::pair<u64, int>> edges;
  u64 first = ~0ull, last = 0;
  for (auto& x : r) {
    if (x.end == 0) continue;
    edges.push_back({x.start, 1});
    edges.push_back({x.end, -1});
    first = std::min(first, x.start);
    last = std::max(last, x.end);
  }
  std::sort(edges.begin(), edges.end());
  int level = 0, most = 0;
  for (auto& e : edges) most = std::max(most, level += e.second);
  j.num("most_at_once", most);
  j.num("all_us", edges.empty() ? 0 : (last - first) / 1e3);
  j.num("kernel_us", us);
  for (auto& x : s) cudaStreamDestroy(x);
}

using Call = std::function<void()>;
static i64 g_cap_ns = 200000000;
// Times of calls in us, for at most `reps` and about g_cap_ns.
static std::vector<double> times(int reps, const Call& call, const Call& after = nullptr) {
  std::vector<double> v;
  const i64 end = mono() + g_cap_ns;
  call();
  if (after) after();
  for (int i = 0; i < reps && mono() < end; ++i) {
    const i64 a = mono();
    call();
    v.push_back((mono() - a) / 1e3);
    if (after) after();
  }
  return v;
}

static cudaGraphExec_t graph_of(int nodes, cudaStream_t stream, double* us, Rec* stamps) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < nodes; ++i) {
    if (stamps)
      stamp<<<1, 1, 0, stream>>>(stamps + i);
    else
      nop<<<1, 32, 0, stream>>>();
  }
  CK(cudaStreamEndCapture(stream, &graph));
  const i64 a = mono();
  CK(cudaGraphInstantiate(&exec, graph, 0));
  *us = (mono() - a) / 1e3;
  CK(cudaGraphDestroy(graph));
  return exec;
}

static void cmd_host(const Keys& k, Json& j) {
  const int reps = (int)geti(k, "reps", 200);
  const bool quick = geti(k, "quick", 0), tiny = geti(k, "tiny", 0);
  g_cap_ns = geti(k, "cap_ms", 200) * 1000000;
  cudaStream_t s;
  CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  cudaEvent_t e, busy;
  CK(cudaEventCreate(&e));
  CK(cudaEventCreate(&busy));
  char *pinned, *dev;
  CK(cudaMallocHost(&pinned, 1 << 20));
  CK(cudaMalloc(&dev, 1 << 20));
  std::vector<char> pageable(1 << 20, 1);
  ready_and_go();
  const Call idle = [&] { CK(cudaStreamSynchronize(s)); };
  auto note = [&](const char* name, const std::vector<double>& v) { j.raw(name, stats(v)); };
  note("launch", times(std::min(reps, 500), [&] { nop<<<1, 32, 0, s>>>(); }));
  idle();
  note("launch_on_idle", times(reps, [&] { nop<<<1, 32, 0, s>>>(); }, idle));
  note("launch_sync", times(reps, [&] {
         nop<<<1, 32, 0, s>>>();
         CK(cudaStreamSynchronize(s));
       }));
  note("event_record", times(reps, [&] { CK(cudaEventRecord(e, s)); }));
  idle();
  note("event_query_done", times(reps, [&] { cudaEventQuery(e); }));
  wait<<<1, 32, 0, s>>>(20000000, nullptr, Log{});
  CK(cudaEventRecord(busy, s));
  note("event_query_busy", times(std::min(reps, 500), [&] { cudaEventQuery(busy); }));
  idle();
  cudaGetLastError();
  note("stream_wait_event", times(reps, [&] { CK(cudaStreamWaitEvent(s, e, 0)); }));
  idle();
  note("stream_query_idle", times(reps, [&] { cudaStreamQuery(s); }));
  note("stream_sync_idle", times(reps, idle));
  note("device_sync_idle", times(reps, [&] { CK(cudaDeviceSynchronize()); }));
  if (tiny) return;
  void* p = nullptr;
  std::vector<double> frees;
  for (int gib = 0; gib < 2; ++gib) {
    frees.clear();
    const size_t bytes = gib ? 1ull << 30 : 1 << 20;
    const auto v = times(
        gib ? 10 : 50, [&] { CK(cudaMalloc(&p, bytes)); },
        [&] {
          const i64 a = mono();
          CK(cudaFree(p));
          frees.push_back((mono() - a) / 1e3);
        });
    note(gib ? "malloc_1gib" : "malloc_1mib", v);
    note(gib ? "free_1gib" : "free_1mib", frees);
  }
  frees.clear();
  note("malloc_async_1mib", times(
                                reps, [&] { CK(cudaMallocAsync(&p, 1 << 20, s)); },
                                [&] {
                                  const i64 a = mono();
                                  CK(cudaFreeAsync(p, s));
                                  frees.push_back((mono() - a) / 1e3);
                                }));
  note("free_async_1mib", frees);
  idle();
  frees.clear();
  if (!quick) {
    note("malloc_host_1mib", times(
                                 30, [&] { CK(cudaMallocHost(&p, 1 << 20)); },
                                 [&] {
                                   const i64 a = mono();
                                   CK(cudaFreeHost(p));
                                   frees.push_back((mono() - a) / 1e3);
                                 }));
    note("free_host_1mib", frees);
  }
  for (int big = 0; big < (quick ? 1 : 2); ++big) {
    const size_t bytes = big ? 1 << 20 : 4096;
    note(big ? "h2d_async_pinned_1mib" : "h2d_async_pinned_4k",
         times(
             100, [&] { CK(cudaMemcpyAsync(dev, pinned, bytes, cudaMemcpyHostToDevice, s)); },
             idle));
    note(big ? "h2d_async_pinned_1mib_and_sync" : "h2d_async_pinned_4k_and_sync", times(100, [&] {
           CK(cudaMemcpyAsync(dev, pinned, bytes, cudaMemcpyHostToDevice, s));
           CK(cudaStreamSynchronize(s));
         }));
    note(big ? "h2d_async_pageable_1mib" : "h2d_async_pageable_4k",
         times(
             100,
             [&] { CK(cudaMemcpyAsync(dev, pageable.data(), bytes, cudaMemcpyHostToDevice, s)); },
             idle));
    note(big ? "d2h_pageable_1mib" : "d2h_pageable_4k",
         times(100, [&] { CK(cudaMemcpy(pageable.data(), dev, bytes, cudaMemcpyDeviceToHost)); }));
  }
  note("memset_async", times(100, [&] { CK(cudaMemsetAsync(dev, 0, 4096, s)); }, idle));
  for (int nodes : {10, 1000}) {
    if (quick && nodes > 10) break;
    double us = 0;
    cudaGraphExec_t exec = graph_of(nodes, s, &us, nullptr);
    char name[60];
    snprintf(name, sizeof name, "graph%d_instantiate_us", nodes);
    j.num(name, us);
    snprintf(name, sizeof name, "graph%d_launch", nodes);
    note(name, times(50, [&] { CK(cudaGraphLaunch(exec, s)); }, idle));
    snprintf(name, sizeof name, "graph%d_launch_sync", nodes);
    note(name, times(50, [&] {
           CK(cudaGraphLaunch(exec, s));
           CK(cudaStreamSynchronize(s));
         }));
    CK(cudaGraphExecDestroy(exec));
  }
  cudaStream_t made;
  note("stream_create",
       times(
           30, [&] { CK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking)); },
           [&] { CK(cudaStreamDestroy(made)); }));
  cudaEvent_t made_event;
  note("event_create", times(
                           reps, [&] { CK(cudaEventCreate(&made_event)); },
                           [&] { CK(cudaEventDestroy(made_event)); }));
  size_t free_bytes, total;
  note("mem_get_info", times(50, [&] { CK(cudaMemGetInfo(&free_bytes, &total)); }));
  cudaPointerAttributes attributes;
  note("pointer_attributes", times(reps, [&] { CK(cudaPointerGetAttributes(&attributes, dev)); }));
  int device;
  note("get_device", times(reps, [&] { CK(cudaGetDevice(&device)); }));
  j.num("context_ms", g_context_ms);
  CK(cudaFreeHost(pinned));
  CK(cudaFree(dev));
  cudaStreamDestroy(s);
}

// Gaps on the device.
static void cmd_pipe(const Keys& k, Json& j) {
  const Spec full = spec_of(gets(k, "spec", "c:264:1024:0:10"));
  cudaStream_t s, t;
  CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
  cudaEvent_t a, b;
  CK(cudaEventCreate(&a));
  CK(cudaEventCreate(&b));
  const Log log{nullptr, nullptr, nullptr, g_log.sink};
  constexpr int n = 1000;
  std::vector<Rec> r(n);
  ready_and_go();
  auto gaps = [&](const char* name, int count) {
    CK(cudaDeviceSynchronize());
    CK(cudaMemcpy(r.data(), g_recs, count * sizeof(Rec), cudaMemcpyDeviceToHost));
    std::vector<double> gap, length;
    for (int i = 0; i < count; ++i) {
      if (r[i].end == 0) continue;
      length.push_back((double)(i64)(r[i].end - r[i].start) / 1e3);
      if (i && r[i - 1].end) gap.push_back((double)(i64)(r[i].start - r[i - 1].end) / 1e3);
    }
    char key[80];
    snprintf(key, sizeof key, "%s_gap_us", name);
    j.raw(key, stats(gap));
    snprintf(key, sizeof key, "%s_length_us", name);
    j.raw(key, stats(length));
  };
  // The host must be ahead: a first kernel waits.
  auto hold = [&](cudaStream_t stream) { wait<<<1, 32, 0, stream>>>(8000000, nullptr, log); };
  const Spec small{'w', 1, 32, 0, 5000};
  for (int pass = 0; pass < 2; ++pass) {
    clear_recs(n);
    hold(s);
    for (int i = 0; i < 900; ++i) launch(small, s, g_recs + i, log);
    gaps("small", 900);
    clear_recs(n);
    hold(s);
    for (int i = 0; i < 900; ++i) launch(full, s, g_recs + i, log);
    gaps("full", 900);
    clear_recs(n);
    hold(s);
    for (int i = 0; i < 900; ++i) stamp<<<1, 1, 0, s>>>(g_recs + i);
    gaps("stamp", 900);
    if (pass == 0) j.text = "{";
  }
  clear_recs(n);
  hold(s);
  for (int i = 0; i < 300; ++i) {
    cudaStream_t here = i % 2 ? t : s, next = i % 2 ? s : t;
    launch(small, here, g_recs + i, log);
    CK(cudaEventRecord(a, here));
    CK(cudaStreamWaitEvent(next, a, 0));
  }
  gaps("event_between_streams", 300);
  for (int blocks : {1, 132, 2112}) {
    hold(s);
    CK(cudaEventRecord(a, s));
    for (int i = 0; i < 900; ++i) nop<<<blocks, 256, 0, s>>>();
    CK(cudaEventRecord(b, s));
    CK(cudaDeviceSynchronize());
    float ms = 0;
    CK(cudaEventElapsedTime(&ms, a, b));
    char key[60];
    snprintf(key, sizeof key, "nop_%d_blocks_us_each", blocks);
    j.num(key, ms * 1e3 / 900);
  }
  std::vector<double> between;
  for (int i = 0; i < 20; ++i) {
    CK(cudaEventRecord(a, s));
    CK(cudaEventRecord(b, s));
    CK(cudaDeviceSynchronize());
    float ms = 0;
    CK(cudaEventElapsedTime(&ms, a, b));
    between.push_back(ms * 1e3);
  }
  j.raw("two_events_us", stats(between));
  double error = 0;
  const double offset = clock_offset(&error);
  std::vector<double> to_start, to_return;
  for (int i = 0; i < 100; ++i) {
    const i64 h = mono();
    stamp<<<1, 1, 0, s>>>(g_recs);
    CK(cudaStreamSynchronize(s));
    const i64 done = mono();
    CK(cudaMemcpy(r.data(), g_recs, sizeof(Rec), cudaMemcpyDeviceToHost));
    to_start.push_back(((double)r[0].start - (h + offset)) / 1e3);
    to_return.push_back((done + offset - (double)r[0].end) / 1e3);
  }
  j.num("clock_error_us", error / 1e3);
  j.raw("host_launch_to_start_us", stats(to_start));
  j.raw("end_to_host_return_us", stats(to_return));
  for (int nodes : {10, 1000}) {
    double us = 0;
    char key[60];
    cudaGraphExec_t exec = graph_of(nodes, s, &us, nullptr);
    std::vector<double> each;
    for (int i = 0; i < 10; ++i) {
      hold(s);
      CK(cudaEventRecord(a, s));
      CK(cudaGraphLaunch(exec, s));
      CK(cudaEventRecord(b, s));
      CK(cudaDeviceSynchronize());
      float ms = 0;
      CK(cudaEventElapsedTime(&ms, a, b));
      each.push_back(ms * 1e3);
    }
    CK(cudaGraphExecDestroy(exec));
    snprintf(key, sizeof key, "graph%d_device_us", nodes);
    j.raw(key, stats(each));
    clear_recs(n);
    exec = graph_of(nodes, s, &us, g_recs);
    CK(cudaGraphLaunch(exec, s));
    CK(cudaDeviceSynchronize());
    clear_recs(n);
    CK(cudaGraphLaunch(exec, s));
    snprintf(key, sizeof key, "graph%d_stamp", nodes);
    gaps(key, nodes);
    CK(cudaGraphExecDestroy(exec));
  }
  cudaStreamDestroy(s);
  cudaStreamDestroy(t);
}

static void cmd_attr(const Keys& k, Json& j) {
  const Spec s = spec_of(gets(k, "spec", "c:1056:1024:0:500"));
  ready_and_go();
  for (auto& a : {std::make_pair("sms_seen", cudaDevAttrMultiProcessorCount),
                  std::make_pair("clock_khz", cudaDevAttrClockRate),
                  std::make_pair("l2_bytes", cudaDevAttrL2CacheSize),
                  std::make_pair("copy_engines", cudaDevAttrAsyncEngineCount),
                  std::make_pair("concurrent_kernels", cudaDevAttrConcurrentKernels),
                  std::make_pair("compute_mode", cudaDevAttrComputeMode),
                  std::make_pair("stream_priorities", cudaDevAttrStreamPrioritiesSupported),
                  std::make_pair("compute_preemption", cudaDevAttrComputePreemptionSupported),
                  std::make_pair("mps_enabled_attr", (cudaDeviceAttr)133)}) {
    int value = -1;
    if (cudaDeviceGetAttribute(&value, a.second, 0) != cudaSuccess) value = -999;
    j.num(a.first, value);
  }
  cudaGetLastError();
  reset_log();
  clear_recs(1);
  launch(s, 0, g_recs, g_log);
  CK(cudaGetLastError());
  CK(cudaDeviceSynchronize());
  Rec r{};
  CK(cudaMemcpy(&r, g_recs, sizeof r, cudaMemcpyDeviceToHost));
  j.num("sms_used", count_sms());
  j.num("kernel_us", r.end ? (r.end - r.start) / 1e3 : -1);
  size_t free_bytes = 0, total = 0;
  CK(cudaMemGetInfo(&free_bytes, &total));
  j.num("free_mib", free_bytes / 1048576.0);
  j.num("total_mib", total / 1048576.0);
  j.num("context_ms", g_context_ms);
  j.num("setup_ms", g_setup_ms);
}

// Allocates until it fails.
static void cmd_memory(const Keys& k, Json& j) {
  const i64 most = geti(k, "most_mib", 8192), step = geti(k, "step_mib", 128);
  ready_and_go();
  std::vector<void*> taken;
  cudaError_t status = cudaSuccess;
  while ((i64)taken.size() * step < most) {
    void* p = nullptr;
    status = cudaMalloc(&p, (size_t)step << 20);
    if (status != cudaSuccess) break;
    taken.push_back(p);
  }
  size_t free_bytes = 0, total = 0;
  cudaGetLastError();
  cudaMemGetInfo(&free_bytes, &total);
  j.num("allocated_mib", (double)taken.size() * step);
  j.num("status", status);
  j.num("free_mib_then", free_bytes / 1048576.0);
  j.num("total_mib", total / 1048576.0);
  for (void* p : taken) CK(cudaFree(p));
  cudaMemGetInfo(&free_bytes, &total);
  j.num("free_mib_after", free_bytes / 1048576.0);
}

int main() {
  std::map<std::string, void (*)(const Keys&, Json&)> commands = {
      {"timer", cmd_timer}, {"calib", cmd_calib}, {"loop", cmd_loop},    {"copy", cmd_copy},
      {"pair", cmd_pair},   {"prio", cmd_prio},   {"many", cmd_many},    {"host", cmd_host},
      {"pipe", cmd_pipe},   {"attr", cmd_attr},   {"memory", cmd_memory}};
  try {
    setup();
  } catch (const std::string& what) {
    Json j;
    j.str("error", what);
    printf("DONE %s\n", j.done().c_str());
    fflush(stdout);
    _exit(1);
  }
  Json hello;
  hello.num("context_ms", g_context_ms);
  hello.num("setup_ms", g_setup_ms);
  printf("DONE %s\n", hello.done().c_str());
  fflush(stdout);
  static char line[4000];
  while (fgets(line, sizeof line, stdin)) {
    Keys keys;
    std::string name;
    for (char* word = strtok(line, " \n"); word; word = strtok(nullptr, " \n")) {
      if (name.empty()) {
        name = word;
      } else if (char* equals = strchr(word, '=')) {
        keys[std::string(word, equals - word)] = equals + 1;
      }
    }
    if (name == "quit") break;
    Json j;
    bool broken = false;
    try {
      auto it = commands.find(name);
      if (it == commands.end()) throw std::string("no command ") + name;
      it->second(keys, j);
    } catch (const std::string& what) {
      j.str("error", what);
      broken = cudaDeviceSynchronize() != cudaSuccess;
    }
    printf("DONE %s\n", j.done().c_str());
    fflush(stdout);
    if (broken) _exit(1);
  }
  fflush(stdout);
  cudaDeviceReset();
  _exit(0);
}
