/* heap.h - binary heaps in plain arrays: the element that is above all others stands first. */
#ifndef WANE_CORE_HEAP_H
#define WANE_CORE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/* Does `a` belong above `b`? */
typedef bool (*wane__above_fn)(const void *user, const void *a, const void *b);

/* Largest element, in bytes. */
#define WANE__HEAP_ELEMENT 256

/* The element at `at` may be too high: let it sink to its place among `count` elements of `size` bytes. */
void wane__heap_sink(void *heap, size_t count, size_t size, size_t at, wane__above_fn above,
                     const void *user);
/* The element at `at` may be too low: let it rise. */
void wane__heap_rise(void *heap, size_t size, size_t at, wane__above_fn above, const void *user);

#endif
