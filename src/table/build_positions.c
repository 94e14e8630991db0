/*
 * build_positions.c - which places of the entries go into the file: those that were seen most, as many as there is room for.
 * Reads the file of places once, in the order of their keys; owns one bounded heap.
 */
#include "table/build_internal.h"

#include "core/error.h"
#include "core/heap.h"
#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

enum { READ_BUFFER = 1 << 20, AT_ONE_MOST = 65535 };

/* Entry, index, context, as in the file; then the one that was seen more. */
static int by_place(const void *a, const void *b) {
    const struct wane__position_pick *x = a, *y = b;
    if (x->position.entry != y->position.entry) return x->position.entry < y->position.entry ? -1 : 1;
    if (x->position.index != y->position.index) return x->position.index < y->position.index ? -1 : 1;
    if (x->position.context != y->position.context) return x->position.context < y->position.context ? -1 : 1;
    if (x->seen != y->seen) return x->seen > y->seen ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* Seen less often; else the one that comes later: the first to go. */
static bool worse(const void *unused, const void *a, const void *b) {
    const struct wane__position_pick *x = a, *y = b;
    (void)unused;
    return x->seen != y->seen ? x->seen < y->seen : by_place(x, y) > 0;
}

_Static_assert(sizeof(struct wane__position_pick) <= WANE__HEAP_ELEMENT, "a heap takes it");

static void add(struct wane__build *build, const struct wane__position_pick *position) {
    struct wane__position_pick *heap = build->position;
    if (build->positions_most == 0) return;
    if (build->positions == build->positions_most) {
        if (!worse(NULL, &heap[0], position)) return;
        heap[0] = *position;
        wane__heap_sink(heap, build->positions, sizeof *heap, 0, worse, NULL);
        return;
    }
    heap[build->positions] = *position;
    wane__heap_rise(heap, sizeof *heap, build->positions++, worse, NULL);
}

static int read_places(struct wane__build *build, struct wane__run_reader *reader, wane_error *error) {
    uint32_t at = 0;
    for (uint64_t done = 0;; done++) {
        const uint8_t *bytes;
        size_t size;
        int status = wane__run_reader_next(reader, &bytes, &size, error);
        if (status == 0) return WANE_OK;
        if (status == 1)
            status = size == WANE__PLACE_BYTES
                         ? WANE_OK
                         : wane__fail(error, WANE_EINTERNAL, "The file of places does not hold places.");
        if (status == WANE_OK && done % 4096 == 0)
            status = wane__build_progress(build, "placing contexts",
                                          (double)reader->at / (double)(build->place_bytes + 1), error);
        if (status != WANE_OK) return status;
        struct wane__place place;
        wane__place_decode(bytes, &place);
        while (at < build->picks && wane__key_compare(build->pick[at].entry.key, place.key) < 0) at++;
        if (at == build->picks) return WANE_OK;
        const struct wane__pick *pick = &build->pick[at];
        if (wane__key_compare(pick->entry.key, place.key) != 0 || !(place.stable || pick->stable)) continue;
        struct wane__position_pick made = {.place = place.place, .seen = place.seen};
        made.position = (struct wane__slmt_position){.entry = at,
                                                     .index = place.index,
                                                     .context = (uint32_t)place.place,
                                                     .top_count = (uint8_t)place.top_count};
        memcpy(made.position.top, place.top, sizeof place.top);
        add(build, &made);
    }
}

/* Of two places that the file would call the same, the one seen more stays; and no entry has more than it can name. */
static void settle(struct wane__build *build) {
    uint32_t kept = 0, of_one = 0;
    qsort(build->position, build->positions, sizeof *build->position, by_place);
    for (uint32_t i = 0; i < build->positions; i++) {
        const struct wane__slmt_position *p = &build->position[i].position;
        const struct wane__slmt_position *last = kept > 0 ? &build->position[kept - 1].position : NULL;
        bool same_entry = last != NULL && last->entry == p->entry;
        if (same_entry && last->index == p->index && last->context == p->context) continue;
        of_one = same_entry ? of_one + 1 : 1;
        if (of_one > AT_ONE_MOST) continue;
        build->position[kept++] = build->position[i];
    }
    build->positions = kept;
}

int wane__build_positions(struct wane__build *build, wane_error *error) {
    struct wane__run_reader reader;
    uint64_t places = build->place_bytes / (WANE__PLACE_BYTES + 2);
    if (build->positions_most > places) build->positions_most = (uint32_t)places;
    wane__free(build->position);
    build->positions = 0;
    build->position = wane__alloc((size_t)build->positions_most * sizeof *build->position);
    if (build->position == NULL)
        return wane__fail(error, WANE_ENOMEM, "No memory for %u positions.", build->positions_most);
    int status = wane__run_reader_open(&reader, build->place_file, "the file of places", 0,
                                       build->place_bytes, READ_BUFFER, error);
    if (status == WANE_OK) status = read_places(build, &reader, error);
    wane__run_reader_close(&reader);
    if (status == WANE_OK) settle(build);
    return status;
}
