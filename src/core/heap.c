/* heap.c - see heap.h. Owns nothing. */
#include "core/heap.h"

#include <string.h>

static void swap(char *a, char *b, size_t size) {
    char kept[WANE__HEAP_ELEMENT];
    memcpy(kept, a, size);
    memcpy(a, b, size);
    memcpy(b, kept, size);
}

void wane__heap_sink(void *heap, size_t count, size_t size, size_t at, wane__above_fn above,
                     const void *user) {
    char *base = heap;
    for (;;) {
        size_t first = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            if (above(user, base + child * size, base + first * size)) first = child;
        if (first == at) return;
        swap(base + at * size, base + first * size, size);
        at = first;
    }
}

void wane__heap_rise(void *heap, size_t size, size_t at, wane__above_fn above, const void *user) {
    char *base = heap;
    for (; at > 0; at = (at - 1) / 2) {
        char *parent = base + (at - 1) / 2 * size;
        if (!above(user, base + at * size, parent)) return;
        swap(base + at * size, parent, size);
    }
}
