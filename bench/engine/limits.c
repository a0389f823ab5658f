// What the machine can do at most: fused multiply-adds per second and bytes read per second, on all threads given.
//   cc -O3 -march=native -pthread limits.c -o limits && ./limits THREADS
// The multiplications are done with vectors of one register (16 floats with AVX-512, 8 with AVX, 4 with SSE or NEON), in chains that
// stay in registers: enough of them that no unit ever waits for a sum, and fewer than there are registers.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512F__)
enum { WIDTH = 16 };
#elif defined(__AVX__)
enum { WIDTH = 8 };
#else
enum { WIDTH = 4 };
#endif
typedef float vec __attribute__((vector_size(WIDTH * 4)));
enum { CHAINS = 12, ROUNDS = 20000000 };
#define BUFFER (256u << 20)

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static volatile float sink;

// Each chain is a variable of its own: of an array that is indexed in a loop, compilers keep some in memory.
static void *multiply(void *unused) {
  vec factor, add;
  for (int lane = 0; lane < WIDTH; lane++) factor[lane] = 0.999999f, add[lane] = 1e-6f;
  vec a = factor, b = a + add, c = b + add, d = c + add, e = d + add, f = e + add;
  vec g = f + add, h = g + add, i = h + add, j = i + add, k = j + add, l = k + add;
  for (int round = 0; round < ROUNDS; round++) {
    a = a * factor + add, b = b * factor + add, c = c * factor + add, d = d * factor + add;
    e = e * factor + add, f = f * factor + add, g = g * factor + add, h = h * factor + add;
    i = i * factor + add, j = j * factor + add, k = k * factor + add, l = l * factor + add;
  }
  a += b + c + d + e + f + g + h + i + j + k + l;
  sink = a[0];
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
  if (threads < 1 || threads > 64) return 1;
  void *none[64] = {0}, *buffers[64];
  for (int i = 0; i < threads; i++) {
    buffers[i] = aligned_alloc(64, BUFFER);
    memset(buffers[i], 1, BUFFER);
  }
  double flops = 0, bytes = 0;
  for (int repeat = 0; repeat < 3; repeat++) {
    double rate = 2.0 * WIDTH * CHAINS * (double)ROUNDS * threads / timed(multiply, none, threads);
    if (rate > flops) flops = rate;
    rate = (double)BUFFER * threads / timed(stream, buffers, threads);
    if (rate > bytes) bytes = rate;
  }
  printf("{\"gflops\": %.1f, \"gbytes\": %.1f}\n", flops / 1e9, bytes / 1e9);
  return 0;
}
