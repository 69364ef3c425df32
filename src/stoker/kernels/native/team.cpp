// A persistent team of threads: jobs are handed over by a counter the workers watch, so a product
// costs two cache-line transfers instead of a fork and a join. Workers spin briefly between jobs
// (the next product usually follows at once) and then sleep, so an idle server uses no CPU.
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "common.h"

static inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

static const int kSpinsBetweenJobs = 1000;  // tens of microseconds
static const int kYieldsBetweenJobs = 3000; // about a millisecond, the time between two decode steps
static const int kSpinsBeforeYield = 200;   // inside a job, where a sibling may have lost its core

struct Team {
  explicit Team(int n) : size(n) {
    for (int tid = 1; tid < n; ++tid) workers.emplace_back([this, tid] { work(tid); });
  }

  ~Team() {
    stop.store(true);
    generation.fetch_add(1);
    generation.notify_all();
    for (auto& worker : workers) worker.join();
  }

  void work(int tid) {
    uint32_t seen = 0;
    for (;;) {
      for (int spins = 0; generation.load(std::memory_order_acquire) == seen; ++spins) {
        if (spins < kSpinsBetweenJobs) {
          relax();
        } else if (spins < kSpinsBetweenJobs + kYieldsBetweenJobs) {
          std::this_thread::yield();
        } else {
          sleepers.fetch_add(1);
          generation.wait(seen);
          sleepers.fetch_sub(1);
        }
      }
      seen = generation.load(std::memory_order_acquire);
      if (stop.load()) return;
      job(tid, size, context);
      running.fetch_sub(1, std::memory_order_release);
    }
  }

  const int size;
  std::mutex busy;  // callers take turns
  TeamJob job = nullptr;
  void* context = nullptr;
  alignas(64) std::atomic<uint32_t> generation{0};
  alignas(64) std::atomic<int> running{0};
  alignas(64) std::atomic<int> arrived{0};
  alignas(64) std::atomic<uint32_t> phase{0};
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;
};

static void wait_until_zero(std::atomic<int>& counter) {
  for (int spins = 0; counter.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < kSpinsBeforeYield) relax();
    else std::this_thread::yield();
  }
}

void team_run(Team* team, TeamJob job, void* context) {
  std::lock_guard<std::mutex> turn(team->busy);
  if (team->size > 1) {
    team->job = job;
    team->context = context;
    team->running.store(team->size - 1, std::memory_order_relaxed);
    team->generation.fetch_add(1);
    if (team->sleepers.load() > 0) team->generation.notify_all();
  }
  job(0, team->size, context);
  wait_until_zero(team->running);
}

void team_barrier(Team* team) {
  if (team->size == 1) return;
  const uint32_t phase = team->phase.load(std::memory_order_acquire);
  if (team->arrived.fetch_add(1, std::memory_order_acq_rel) == team->size - 1) {
    team->arrived.store(0, std::memory_order_relaxed);
    team->phase.fetch_add(1, std::memory_order_release);
    return;
  }
  for (int spins = 0; team->phase.load(std::memory_order_acquire) == phase; ++spins) {
    if (spins < kSpinsBeforeYield) relax();
    else std::this_thread::yield();
  }
}

int team_size(const Team* team) { return team->size; }

// Raised with every change of a function or structure that kernels/native.py or its users describe.
EXPORT int32_t stoker_interface() { return 4; }

EXPORT Team* stoker_team_new(int32_t num_threads) { return new Team(num_threads < 1 ? 1 : num_threads); }

EXPORT void stoker_team_free(Team* team) { delete team; }
