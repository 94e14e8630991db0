/*
 * build_sort.c - the external sort; see build_sort.h. Owns its memory and its runs; refuses records that have no place.
 *
 *     one block of memory:   record record record … ►        ◄ … handle handle │ room to merge handles
 *
 * A handle holds the first eight bytes, so that most comparisons never leave the handles. When the two ends meet, the handles
 * are sorted and the records written in their order.
 */
#include "table/build_sort.h"

#include "core/error.h"
#include "core/heap.h"
#include "core/memory.h"

#include <string.h>
#include <unistd.h>

enum {
    RUNS_MOST = 256,       /* files open at once; so many become one */
    BUFFER_MOST = 1 << 20, /* of a run that is read; more gains nothing */
    AHEAD = 6,             /* records that are fetched before their turn */
    UNIT = 8,              /* records begin at multiples of it */
    PART_BITS = 9, /* of a prefix, that are sorted by first; two arrays of so many fit a small stack */
    PARTS = 1 << PART_BITS,
};

struct handle {
    uint64_t prefix;
    uint64_t at; /* in units; the size stands before the record */
};

struct run {
    struct wane__run_reader reader;
    const uint8_t *bytes; /* its next record */
    size_t size;
    bool foreign;  /* came sorted from outside: its order is checked */
    uint8_t *last; /* of a foreign run: the record before */
    size_t last_size;
};

struct wane__sorter {
    char *folder;
    size_t memory;
    uint8_t *block;
    size_t used;            /* bytes of records */
    struct handle *handles; /* behind the block's end, growing down: handles[-1] is the first */
    size_t count;
    struct run run[RUNS_MOST];
    int runs;
    int heap[RUNS_MOST];
    int heaped;
    size_t next; /* without runs: which handle */
    uint64_t spilled;
    bool finished;
};

/* -------------------------------------------------------------------- order */

static uint64_t prefix_of(const uint8_t *bytes) {
    uint64_t x = 0;
    for (int i = 0; i < 8; i++) x = x << 8 | bytes[i];
    return x;
}

static int compare_bytes(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size) {
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

static const uint8_t *record_of(const struct wane__sorter *sorter, struct handle handle, size_t *size) {
    const uint8_t *at = sorter->block + handle.at * UNIT;
    uint32_t stored;
    memcpy(&stored, at, sizeof stored);
    *size = stored;
    return at + sizeof stored;
}

static bool before(const struct wane__sorter *sorter, struct handle a, struct handle b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    size_t a_size, b_size;
    const uint8_t *a_bytes = record_of(sorter, a, &a_size), *b_bytes = record_of(sorter, b, &b_size);
    return compare_bytes(a_bytes, a_size, b_bytes, b_size) < 0;
}

/* `room` has half as many places, rounded up. */
static void sort_handles(const struct wane__sorter *sorter, struct handle *handle, size_t count,
                         struct handle *room) {
    if (count < 12) {
        for (size_t i = 1; i < count; i++) {
            struct handle moved = handle[i];
            size_t j = i;
            for (; j > 0 && before(sorter, moved, handle[j - 1]); j--) handle[j] = handle[j - 1];
            handle[j] = moved;
        }
        return;
    }
    size_t half = count / 2;
    sort_handles(sorter, handle, half, room);
    sort_handles(sorter, handle + half, count - half, room);
    memcpy(room, handle, half * sizeof *room);
    for (size_t i = 0, j = half, to = 0; i < half; to++)
        handle[to] = j < count && before(sorter, handle[j], room[i]) ? handle[j++] : room[i++];
}

/*
 * First by the highest bits of the prefix, in place: each handle goes to its part, whatever is there comes along to its own. Prefixes are
 * hashes, so that parts are about alike, and small enough for the nearest cache. Where they are not, nothing is lost but this.
 */
static void part_handles(struct handle *handle, size_t count, size_t end[PARTS]) {
    size_t next[PARTS] = {0}, at = 0;
    for (size_t i = 0; i < count; i++) next[handle[i].prefix >> (64 - PART_BITS)]++;
    for (int p = 0; p < PARTS; p++) {
        size_t size = next[p];
        next[p] = at;
        end[p] = at += size;
    }
    for (int p = 0; p < PARTS; p++) {
        while (next[p] < end[p]) {
            struct handle moved = handle[next[p]];
            int home = (int)(moved.prefix >> (64 - PART_BITS));
            while (home != p) {
                struct handle *place = &handle[next[home]++];
                struct handle kept = *place;
                *place = moved;
                moved = kept;
                home = (int)(moved.prefix >> (64 - PART_BITS));
            }
            handle[next[p]++] = moved;
        }
    }
}

static void sort_block(struct wane__sorter *sorter) {
    struct handle *first = sorter->handles - sorter->count, *room = first - (sorter->count / 2 + 1);
    size_t end[PARTS];
    if (sorter->count < 16 * PARTS) {
        sort_handles(sorter, first, sorter->count, room);
        return;
    }
    part_handles(first, sorter->count, end);
    for (int p = 0; p < PARTS; p++) {
        size_t from = p > 0 ? end[p - 1] : 0;
        sort_handles(sorter, first + from, end[p] - from, room);
    }
}

/* -------------------------------------------------------------------- runs */

static int run_open(struct wane__sorter *sorter, int fd, const char *name, uint64_t from, uint64_t end,
                    bool foreign, wane_error *error) {
    struct run *run = &sorter->run[sorter->runs];
    *run = (struct run){.foreign = foreign};
    int status = WANE_OK;
    if (foreign && (run->last = wane__alloc(WANE__SORT_MOST)) == NULL)
        status = wane__fail(error, WANE_ENOMEM, "No memory to read records.");
    run->reader = (struct wane__run_reader){.fd = fd, .name = name, .from = from, .at = from, .end = end};
    sorter->runs++;
    return status;
}

static void run_close(struct run *run) {
    wane__run_reader_close(&run->reader);
    close(run->reader.fd);
    wane__free(run->last);
}

static int run_advance(struct run *run, wane_error *error) {
    int got = wane__run_reader_next(&run->reader, &run->bytes, &run->size, error);
    if (got != 1 || !run->foreign) return got;
    if (compare_bytes(run->bytes, run->size, run->last, run->last_size) < 0)
        return wane__fail(error, WANE_EFORMAT, "%s is damaged: its records are out of order.",
                          run->reader.name);
    memcpy(run->last, run->bytes, run->size);
    run->last_size = run->size;
    return 1;
}

static bool run_before(const void *sorter, const void *a, const void *b) {
    const struct run *run = ((const struct wane__sorter *)sorter)->run;
    const struct run *x = &run[*(const int *)a], *y = &run[*(const int *)b];
    return compare_bytes(x->bytes, x->size, y->bytes, y->size) < 0;
}

static void sink(struct wane__sorter *sorter, size_t at) {
    wane__heap_sink(sorter->heap, (size_t)sorter->heaped, sizeof *sorter->heap, at, run_before, sorter);
}

static int merge_begin(struct wane__sorter *sorter, wane_error *error) {
    size_t buffer = sorter->memory / 2 / (size_t)(sorter->runs > 0 ? sorter->runs : 1);
    if (buffer > BUFFER_MOST) buffer = BUFFER_MOST;
    sorter->heaped = 0;
    for (int i = 0; i < sorter->runs; i++) {
        struct run *run = &sorter->run[i];
        struct wane__run_reader *reader = &run->reader;
        if (reader->buffer == NULL) {
            int status = wane__run_reader_open(reader, reader->fd, reader->name, reader->from, reader->end,
                                               buffer, error);
            if (status != WANE_OK) return status;
        }
        wane__run_reader_rewind(reader);
        run->last_size = 0;
        int got = run_advance(run, error);
        if (got < 0) return got;
        if (got == 1) sorter->heap[sorter->heaped++] = i;
    }
    for (size_t i = (size_t)sorter->heaped / 2; i > 0; i--) sink(sorter, i - 1);
    return WANE_OK;
}

static int merge_advance(struct wane__sorter *sorter, wane_error *error) {
    int got = run_advance(&sorter->run[sorter->heap[0]], error);
    if (got < 0) return got;
    if (got == 0) sorter->heap[0] = sorter->heap[--sorter->heaped];
    if (sorter->heaped > 0) sink(sorter, 0);
    return WANE_OK;
}

/* In the handles' order records lie anywhere: begin to bring one here, some of its lines; the processor sees what follows. */
static void fetch_ahead(const struct wane__sorter *sorter, struct handle handle) {
    const uint8_t *at = sorter->block + handle.at * UNIT;
    for (int line = 0; line < 5; line++) __builtin_prefetch(at + 128 * line);
}

/* The block's records in order, or those of all runs, into one fresh run. */
static int write_run(struct wane__sorter *sorter, bool merged, struct wane__run_writer *writer,
                     wane_error *error) {
    int status = merged ? merge_begin(sorter, error) : WANE_OK;
    if (!merged) {
        sort_block(sorter);
        const struct handle *first = sorter->handles - sorter->count;
        for (size_t i = 0; i < sorter->count && status == WANE_OK; i++) {
            size_t size;
            if (i + AHEAD < sorter->count) fetch_ahead(sorter, first[i + AHEAD]);
            const uint8_t *bytes = record_of(sorter, first[i], &size);
            status = wane__run_writer_add(writer, bytes, size, error);
        }
    }
    while (merged && status == WANE_OK && sorter->heaped > 0) {
        const struct run *run = &sorter->run[sorter->heap[0]];
        status = wane__run_writer_add(writer, run->bytes, run->size, error);
        if (status == WANE_OK) status = merge_advance(sorter, error);
    }
    return status == WANE_OK ? wane__run_writer_flush(writer, error) : status;
}

static int new_run(struct wane__sorter *sorter, bool merged, wane_error *error) {
    int fd = wane__sort_temporary(sorter->folder, error);
    if (fd < 0) return fd;
    struct wane__run_writer writer;
    int status = wane__run_writer_open(&writer, fd, error);
    if (status == WANE_OK) status = write_run(sorter, merged, &writer, error);
    uint64_t written = writer.written;
    wane__run_writer_close(&writer);
    if (status != WANE_OK) {
        close(fd);
        return status;
    }
    if (merged) {
        for (int i = 0; i < sorter->runs; i++) run_close(&sorter->run[i]);
        sorter->runs = 0;
    } else {
        sorter->used = sorter->count = 0;
    }
    sorter->spilled++;
    return run_open(sorter, fd, "a temporary file", 0, written, false, error);
}

static int spill(struct wane__sorter *sorter, wane_error *error) {
    if (sorter->runs == RUNS_MOST) {
        int status = new_run(sorter, true, error);
        if (status != WANE_OK) return status;
    }
    return new_run(sorter, false, error);
}

/* -------------------------------------------------------------------- the sorter */

int wane__sorter_new(const char *folder, size_t memory, struct wane__sorter **out, wane_error *error) {
    *out = NULL;
    struct wane__sorter *sorter = wane__alloc_zero(1, sizeof *sorter);
    if (sorter == NULL) return wane__fail(error, WANE_ENOMEM, "No memory to sort records.");
    if (memory < (size_t)1 << 20) memory = (size_t)1 << 20;
    memory = memory / sizeof(struct handle) * sizeof(struct handle);
    sorter->memory = memory;
    sorter->folder = wane__copy_string(folder);
    sorter->block = wane__alloc_aligned(64, memory);
    if (sorter->block == NULL || (folder != NULL && sorter->folder == NULL)) {
        wane__sorter_free(sorter);
        return wane__fail(error, WANE_ENOMEM, "No memory to sort records: %zu MiB were asked for.",
                          memory >> 20);
    }
    sorter->handles = (struct handle *)(void *)(sorter->block + memory);
    *out = sorter;
    return WANE_OK;
}

void wane__sorter_free(struct wane__sorter *sorter) {
    if (sorter == NULL) return;
    for (int i = 0; i < sorter->runs; i++) run_close(&sorter->run[i]);
    wane__free(sorter->block);
    wane__free(sorter->folder);
    wane__free(sorter);
}

int wane__sorter_add(struct wane__sorter *sorter, const void *bytes, size_t size, wane_error *error) {
    if (sorter->finished || size < WANE__SORT_LEAST || size > WANE__SORT_MOST)
        return wane__fail(error, WANE_EINTERNAL, "A record of %zu bytes has no place in the sort.", size);
    size_t need = (sizeof(uint32_t) + size + UNIT - 1) / UNIT * UNIT;
    size_t handles = (sorter->count + 1 + (sorter->count + 1) / 2 + 1) * sizeof(struct handle);
    if (sorter->used + need + handles > sorter->memory) {
        int status = spill(sorter, error);
        if (status != WANE_OK) return status;
    }
    uint32_t stored = (uint32_t)size;
    memcpy(sorter->block + sorter->used, &stored, sizeof stored);
    memcpy(sorter->block + sorter->used + sizeof stored, bytes, size);
    sorter->count++;
    sorter->handles[-(ptrdiff_t)sorter->count] =
        (struct handle){.prefix = prefix_of(bytes), .at = sorter->used / UNIT};
    sorter->used += need;
    return WANE_OK;
}

int wane__sorter_add_run(struct wane__sorter *sorter, int fd, const char *name, uint64_t from, uint64_t end,
                         wane_error *error) {
    if (sorter->runs == RUNS_MOST) {
        int status = new_run(sorter, true, error);
        if (status != WANE_OK) {
            close(fd);
            return status;
        }
    }
    return run_open(sorter, fd, name, from, end, true, error);
}

int wane__sorter_finish(struct wane__sorter *sorter, wane_error *error) {
    int status = WANE_OK;
    if (sorter->runs > 0 && sorter->count > 0) status = spill(sorter, error);
    if (status != WANE_OK) return status;
    if (sorter->runs > 0) {
        wane__free(sorter->block);
        sorter->block = NULL;
    } else {
        sort_block(sorter);
    }
    sorter->finished = true;
    return wane__sorter_rewind(sorter, error);
}

int wane__sorter_rewind(struct wane__sorter *sorter, wane_error *error) {
    sorter->next = 0;
    return sorter->runs > 0 ? merge_begin(sorter, error) : WANE_OK;
}

int wane__sorter_next(struct wane__sorter *sorter, const uint8_t **bytes, size_t *size, wane_error *error) {
    if (sorter->runs == 0) {
        if (sorter->next == sorter->count) return 0;
        *bytes = record_of(sorter, (sorter->handles - sorter->count)[sorter->next++], size);
        return 1;
    }
    /* The record that was given last is still its run's: go on only now. */
    if (sorter->next > 0 && sorter->heaped > 0) {
        int status = merge_advance(sorter, error);
        if (status != WANE_OK) return status;
    }
    sorter->next = 1;
    if (sorter->heaped == 0) return 0;
    const struct run *run = &sorter->run[sorter->heap[0]];
    *bytes = run->bytes;
    *size = run->size;
    return 1;
}

uint64_t wane__sorter_spilled(const struct wane__sorter *sorter) {
    return sorter->spilled;
}
