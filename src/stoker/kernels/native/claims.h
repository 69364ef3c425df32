// How a job's work is shared out among the team, phase by phase.
//
// Each thread has a contiguous share, so that what it prefetches is its own, and takes it piece by piece from the
// front. Who is done helps the others from the back: a thread that loses its core for a moment (to the HTTP side,
// say) holds up nobody for longer than one piece.
#pragma once

#include <atomic>
#include <memory>

#include "common.h"

class Claims {
 public:
  // Before the job.
  void make_room(int64_t phases, int num_threads) {
    num_phases = phases;
    if (room >= phases * num_threads) return;
    room = phases * num_threads;
    shares.reset(new Share[room]);
  }

  // In the job, by every thread, with a barrier before anybody's first `run`.
  void begin(int tid, int n) {
    for (int64_t p = 0; p < num_phases; ++p) shares[p * n + tid].taken.store(0, std::memory_order_relaxed);
  }

  // In the job, by thread `tid` of `n`: calls work(first, last) for pieces of 0..total-1 until all threads together
  // have taken everything. Every phase needs a number of its own.
  template <typename Work>
  void run(int64_t phase, int tid, int n, int64_t total, int64_t piece, Work work) {
    for (int i = 0; i < n; ++i) {
      const int owner = (tid + i) % n;
      int64_t first, last, at;
      share(total, owner, n, &first, &last);
      while (const int64_t count = shares[phase * n + owner].take(last - first, piece, owner != tid, &at)) {
        work(first + at, first + at + count);
      }
    }
  }

 private:
  // How much of a share is taken: from the front (low half) and from the back.
  struct alignas(64) Share {
    std::atomic<uint64_t> taken{0};

    // Of `size` items, up to `piece` from one end. Returns how many; `at` becomes where they begin.
    int64_t take(int64_t size, int64_t piece, bool from_back, int64_t* at) {
      uint64_t now = taken.load(std::memory_order_relaxed);
      for (;;) {
        const int64_t front = (uint32_t)now, back = now >> 32, left = size - front - back;
        if (left <= 0) return 0;
        const int64_t count = piece < left ? piece : left;
        *at = from_back ? size - back - count : front;
        const uint64_t then = now + ((uint64_t)count << (from_back ? 32 : 0));
        if (taken.compare_exchange_weak(now, then, std::memory_order_relaxed)) return count;
      }
    }
  };

  std::unique_ptr<Share[]> shares;  // [phase][thread]
  int64_t room = 0, num_phases = 0;
};
