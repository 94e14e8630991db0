/*
 * build_strata.c - which records are used when a kind has more of them than are wanted: those with the least hashes, so that
 * neither arrival nor sharding decides. Owns one bounded heap a kind.
 */
#include "table/build_internal.h"

#include "core/heap.h"
#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

static bool larger(const void *unused, const void *a, const void *b) {
    (void)unused;
    return *(const uint64_t *)a > *(const uint64_t *)b;
}

bool wane__strata_add(struct wane__strata *strata, enum wane__kind kind, uint64_t hash, int *status) {
    *status = WANE_OK;
    if (strata->limit == 0) return true;
    size_t *count = &strata->count[kind];
    uint64_t *heap = strata->least[kind];
    /* One more than are wanted: the first that is not used shows where to stop among equal hashes. */
    if (*count == strata->limit + 1) {
        if (hash >= heap[0]) return hash == heap[0];
        heap[0] = hash;
        wane__heap_sink(heap, *count, sizeof *heap, 0, larger, NULL);
        return true;
    }
    if (*count == strata->room[kind]) {
        size_t room = strata->room[kind] ? 2 * strata->room[kind] : 1024;
        if (room > strata->limit + 1) room = (size_t)strata->limit + 1;
        heap = wane__resize(heap, room, sizeof *heap);
        if (heap == NULL) {
            *status = WANE_ENOMEM;
            return false;
        }
        strata->least[kind] = heap;
        strata->room[kind] = room;
    }
    heap[*count] = hash;
    wane__heap_rise(heap, sizeof *heap, (*count)++, larger, NULL);
    return true;
}

void wane__strata_bounds(const struct wane__strata *strata, uint64_t bound[WANE__KINDS],
                         bool none[WANE__KINDS]) {
    for (int kind = 0; kind < WANE__KINDS; kind++) {
        bound[kind] = UINT64_MAX;
        none[kind] = false;
        size_t count = strata->count[kind];
        if (strata->limit == 0 || count <= strata->limit) continue;
        /* The largest hash below the first that is one too many. */
        const uint64_t *heap = strata->least[kind];
        bool found = false;
        for (size_t i = 0; i < count; i++) {
            if (heap[i] == heap[0] || (found && heap[i] < bound[kind])) continue;
            bound[kind] = heap[i];
            found = true;
        }
        none[kind] = !found;
    }
}

void wane__strata_free(struct wane__strata *strata) {
    for (int kind = 0; kind < WANE__KINDS; kind++) wane__free(strata->least[kind]);
    memset(strata, 0, sizeof *strata);
}
