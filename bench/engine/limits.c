// What the machine can do at most: fused multiply-adds per second and bytes read per second, on all threads given.
//   cc -O3 -march=native -pthread limits.c -o limits && ./limits THREADS
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef float vec __attribute__((vector_size(64)));
enum { CHAINS = 12, ROUNDS = 20000000 };
#define BUFFER (256u << 20)

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static volatile float sink;

static void *multiply(void *unused) {
  vec sums[CHAINS], factor, add;
  for (int lane = 0; lane < 16; lane++) factor[lane] = 0.999999f, add[lane] = 1e-6f;
  for (int i = 0; i < CHAINS; i++) sums[i] = factor * (float)i;
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < CHAINS; i++) sums[i] = sums[i] * factor + add;
  float total = 0;
  for (int i = 0; i < CHAINS; i++) total += sums[i][i];
  sink = total;
  return unused;
}

static void *stream(void *buffer) {
  const vec *data = buffer;
  vec a = {0}, b = {0}, c = {0}, d = {0};
  for (size_t i = 0; i + 4 <= BUFFER / sizeof(vec); i += 4) a += data[i], b += data[i + 1], c += data[i + 2], d += data[i + 3];
  a += b + c + d;
  sink = a[0];
  return buffer;
}

static double timed(void *(*work)(void *), void **arguments, int threads) {
  pthread_t handles[64];
  double start = seconds();
  for (int i = 0; i < threads; i++) pthread_create(&handles[i], 0, work, arguments[i]);
  for (int i = 0; i < threads; i++) pthread_join(handles[i], 0);
  return seconds() - start;
}

int main(int count, char **values) {
  int threads = count > 1 ? atoi(values[1]) : 1;
  void *none[64] = {0}, *buffers[64];
  for (int i = 0; i < threads; i++) {
    buffers[i] = aligned_alloc(64, BUFFER);
    memset(buffers[i], 1, BUFFER);
  }
  double flops = 0, bytes = 0;
  for (int repeat = 0; repeat < 3; repeat++) {
    double rate = 2.0 * 16 * CHAINS * (double)ROUNDS * threads / timed(multiply, none, threads);
    if (rate > flops) flops = rate;
    rate = (double)BUFFER * threads / timed(stream, buffers, threads);
    if (rate > bytes) bytes = rate;
  }
  printf("{\"gflops\": %.1f, \"gbytes\": %.1f}\n", flops / 1e9, bytes / 1e9);
  return 0;
}
