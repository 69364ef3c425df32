// The likeliest of some logits and the sum that makes them probabilities, in one pass of the thread team.
#include <cmath>
#include <vector>

#include "common.h"

namespace {

const int64_t kMostChosen = 64;

// What one thread has seen of a row: its largest logits in order, and the sum of all e^(logit - top).
struct Seen {
  float values[kMostChosen];
  int64_t ids[kMostChosen];
  float top, sum;
};

struct ChoiceJob {
  const float* logits;
  int64_t rows, size;
  int32_t count;
  Seen* seen;  // [rows][threads]
};

void insert(Seen& s, int32_t count, float value, int64_t id) {
  int32_t at = count - 1;
  for (; at > 0 && s.values[at - 1] < value; --at) s.values[at] = s.values[at - 1], s.ids[at] = s.ids[at - 1];
  s.values[at] = value, s.ids[at] = id;
}

void look(const float* x, int64_t first, int64_t last, int32_t count, Seen& s) {
  for (int32_t i = 0; i < count; ++i) s.values[i] = -INFINITY, s.ids[i] = first;
  int64_t i = first;
  for (; i + 8 <= last; i += 8) {
    const v8i larger = load8(x + i) > splat(s.values[count - 1]);
    int64_t parts[4];
    memcpy(parts, &larger, sizeof parts);
    if (!(parts[0] | parts[1] | parts[2] | parts[3])) continue;
    for (int lane = 0; lane < 8; ++lane) {
      if (x[i + lane] > s.values[count - 1]) insert(s, count, x[i + lane], i + lane);
    }
  }
  for (; i < last; ++i) {
    if (x[i] > s.values[count - 1]) insert(s, count, x[i], i);
  }
  s.top = s.values[0];
  v8f sum = splat(0);
  for (i = first; i + 8 <= last; i += 8) sum += exp8(load8(x + i) - splat(s.top));
  s.sum = sum8(sum);
  for (; i < last; ++i) s.sum += expf(x[i] - s.top);
}

void choice_job(int tid, int n, void* context) {
  const ChoiceJob& job = *(ChoiceJob*)context;
  int64_t first, last;
  share(job.size, tid, n, &first, &last);
  for (int64_t row = 0; row < job.rows; ++row) {
    look(job.logits + row * job.size, first, last, job.count, job.seen[row * n + tid]);
  }
}

}  // namespace

// The `count` (at most kMostChosen) largest of each row of logits [rows, size], the first of equal ones first, and the
// logarithm of the sum of their exponentials. Where fewer than `count` are above -infinity, the rest is any.
EXPORT void stoker_likeliest(Team* team, const float* logits, int64_t rows, int64_t size, int32_t count, float* values,
                             int64_t* ids, float* log_sums) {
  static thread_local std::vector<Seen> seen;
  const int n = team_size(team);
  if (seen.size() < (size_t)(rows * n)) seen.resize(rows * n);
  ChoiceJob job = {logits, rows, size, count, seen.data()};
  team_run(team, choice_job, &job);
  for (int64_t row = 0; row < rows; ++row) {
    Seen* parts = seen.data() + row * n;
    Seen& all = parts[0];
    for (int t = 1; t < n; ++t) {
      for (int32_t i = 0; i < count && parts[t].values[i] > all.values[count - 1]; ++i) {
        insert(all, count, parts[t].values[i], parts[t].ids[i]);
      }
    }
    const float top = all.values[0];
    double sum = 0;
    for (int t = 0; t < n; ++t) {
      if (parts[t].top > -INFINITY) sum += parts[t].sum * (double)expf(parts[t].top - top);
    }
    memcpy(values + row * count, all.values, count * sizeof(float));
    memcpy(ids + row * count, all.ids, count * sizeof(int64_t));
    log_sums[row] = top + (float)log(sum);
  }
}
