/*
 * row.c - kernels over a row of logits, written once with the compiler's vector types and compiled for each
 * processor family. Owns no state: the choice is made by asking the processor, each time a source is made.
 *
 * (An indirect function would choose for us, but resolvers run before the sanitizers do.)
 */
#include "head/row.h"

#include "sample/exp.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef float v8f __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));
typedef float v4f __attribute__((vector_size(16)));
typedef double v4d __attribute__((vector_size(32)));
typedef int64_t v4l __attribute__((vector_size(32)));
typedef uint64_t v4u __attribute__((vector_size(32)));

/* Compiled for any processor of this architecture, then for families with wider registers. */
#define QUOTE_TEXT(text) #text
#define QUOTE(text)      QUOTE_TEXT(text)

#define FAMILY plain
#define TARGET
#include "head/row_template.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define FAMILY avx2
#define TARGET __attribute__((target("avx2")))
#include "head/row_template.h"
#endif

const struct wane__row_kernels *wane__row_kernels_at(int index) {
    if (index == 0) return &plain;
#if defined(__x86_64__) && defined(__GNUC__)
    if (index == 1 && __builtin_cpu_supports("avx2")) return &avx2;
#endif
    return NULL;
}

const struct wane__row_kernels *wane__row_kernels(void) {
    const struct wane__row_kernels *best = &plain;
    for (int i = 1; wane__row_kernels_at(i) != NULL; i++) best = wane__row_kernels_at(i);
    return best;
}
