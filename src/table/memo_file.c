/*
 * memo_file.c - the memo as a file; memo.h has the form. Refuses whatever is not whole, and of this very origin: a token that other
 * floats gave would not be a repetition.
 */
#include "core/buf.h"
#include "core/bytes.h"
#include "core/error.h"
#include "core/memory.h"
#include "table/memo_internal.h"

#include <string.h>
#include <xxhash.h>

enum { HEAD = 32, ENTRY = 36, TAIL = 8, VERSION = 1 };

static const char magic[8] = {'W', 'A', 'N', 'E', 'M', 'E', 'M', 'O'};

/* --------------------------------------------------------------------- saving */

static void write_text(struct wane__buf *buf, const char *text) {
    unsigned char size[4];
    wane__put(size, strlen(text), 4);
    wane__buf_append(buf, size, 4);
    wane__buf_append(buf, text, strlen(text));
}

/* Room for what is there, and for a few that are met twice because they were used meanwhile. */
static uint64_t room_of(const struct wane__memo *memo) {
    return memo->count + memo->count / 8 + 64;
}

/* Where a picture stops that is overtaken by use: so many entries must have been met twice only if pieces are tiny. */
static uint64_t most_of(const struct wane__memo *memo) {
    return 4 * (uint64_t)memo->count + 64;
}

int wane__memo_picture_begin(struct wane__memo *memo, const char *origin, int vocab_size,
                             struct wane__buf *picture, wane_error *error) {
    unsigned char head[HEAD] = {0};
    wane__buf_clear(picture);
    memcpy(head, magic, sizeof magic);
    wane__put(head + 8, VERSION, 4);
    wane__put(head + 12, memo->tenants, 4);
    wane__put(head + 24, (uint64_t)vocab_size, 4);
    wane__put(head + 28, strlen(origin), 4);
    wane__buf_append(picture, head, HEAD);
    wane__buf_append(picture, origin, strlen(origin));
    for (uint32_t i = 0; i < memo->tenants; i++) write_text(picture, memo->tenant[i]);
    if (!wane__buf_reserve(picture, room_of(memo) * (size_t)ENTRY + TAIL))
        return wane__fail(error, WANE_ENOMEM, "No memory to write the memo.");
    memo->cursor = memo->oldest;
    memo->picture = (struct wane__memo_picture){most_of(memo), 0, memo->tenants};
    return WANE_OK;
}

bool wane__memo_picture_go_on(struct wane__memo *memo, struct wane__buf *picture, uint64_t entries) {
    struct wane__memo_picture *p = &memo->picture;
    unsigned char entry[ENTRY] = {0};
    for (; entries > 0 && memo->cursor != WANE__MEMO_NONE && p->taken < p->most; entries--) {
        const struct wane__memo_entry *e = &memo->entry[memo->cursor];
        memo->cursor = e->newer;
        if (e->key.tenant >= p->tenants) continue; /* met for the first time since the beginning */
        wane__put(entry, e->key.name.low, 8);
        wane__put(entry + 8, e->key.name.high, 8);
        wane__put(entry + 16, e->key.length, 4);
        wane__put(entry + 20, e->key.tenant, 4);
        wane__put(entry + 24, (uint32_t)e->token, 4);
        wane__buf_append(picture, entry, ENTRY);
        p->taken++;
    }
    if (memo->cursor != WANE__MEMO_NONE && p->taken < p->most) return false;
    memo->cursor = WANE__MEMO_NONE;
    wane__put((unsigned char *)picture->data + 16, p->taken, 8);
    return true;
}

void wane__memo_picture_drop(struct wane__memo *memo, struct wane__buf *picture) {
    memo->cursor = WANE__MEMO_NONE;
    wane__buf_free(picture);
}

void wane__memo_picture_seal(struct wane__buf *picture) {
    unsigned char tail[TAIL];
    wane__put(tail, XXH3_64bits(picture->data, picture->size), 8);
    wane__buf_append(picture, tail, TAIL);
}

int wane__memo_picture_write(const struct wane__buf *picture, const char *path, wane_error *error) {
    return wane__file_write(path, "the memo", picture->data, picture->size, 0600, error);
}

int wane__memo_save(struct wane__memo *memo, const char *path, const char *origin, int vocab_size,
                    wane_error *error) {
    struct wane__buf buf = {0};
    int status = wane__memo_picture_begin(memo, origin, vocab_size, &buf, error);
    if (status == WANE_OK) {
        wane__memo_picture_go_on(memo, &buf, UINT64_MAX);
        wane__memo_picture_seal(&buf);
        status = wane__memo_picture_write(&buf, path, error);
    }
    wane__buf_free(&buf);
    return status;
}

/* -------------------------------------------------------------------- reading */

struct input {
    const char *name;
    const unsigned char *at;
    size_t left;
    wane_error *error;
};

static int damaged(const struct input *in, const char *what) {
    return wane__fail(in->error, WANE_EFORMAT,
                      "The memo %s is damaged: %s. Remove it, or name another with --memo-file.", in->name,
                      what);
}

static const unsigned char *take(struct input *in, size_t size) {
    if (size > in->left) return NULL;
    const unsigned char *from = in->at;
    in->at += size;
    in->left -= size;
    return from;
}

/* Name by name; `number` receives what each tenant of the file is in this memo. */
static int read_tenants(struct input *in, struct wane__memo *memo, uint32_t count, uint32_t *number) {
    for (uint32_t i = 0; i < count; i++) {
        const unsigned char *size = take(in, 4);
        const unsigned char *text = size != NULL ? take(in, (size_t)wane__get(size, 4)) : NULL;
        size_t bytes = text != NULL ? (size_t)wane__get(size, 4) : 0;
        if (text == NULL) return damaged(in, "a tenant's name goes past the end");
        if (bytes > WANE__MEMO_TENANT_MOST || memchr(text, 0, bytes) != NULL)
            return damaged(in, "a tenant's name is none");
        char *name = wane__copy_bytes(text, bytes);
        int found = name != NULL ? wane__memo_tenant(memo, name) : -1;
        wane__free(name);
        if (found < 0) return wane__fail(in->error, WANE_ENOMEM, "No memory for the memo %s.", in->name);
        number[i] = (uint32_t)found;
    }
    return WANE_OK;
}

static int read_entries(struct input *in, struct wane__memo *memo, uint64_t count, const uint32_t *number,
                        uint32_t tenants, int vocab_size) {
    if (in->left / ENTRY != count || in->left % ENTRY != 0)
        return damaged(in, "its size is not that of its entries");
    const unsigned char *first = in->at;
    for (uint64_t i = 0; i < count; i++) { /* all are looked at before one is taken */
        const unsigned char *e = first + i * ENTRY;
        if (wane__get(e + 20, 4) >= tenants || wane__get(e + 24, 4) >= (uint64_t)vocab_size ||
            wane__get(e + 28, 8) != 0)
            return damaged(in, "an entry has a tenant or a token that there is not");
    }
    for (uint64_t i = 0; i < count; i++) {
        const unsigned char *e = first + i * ENTRY;
        const struct wane__memo_key key = {{wane__get(e, 8), wane__get(e + 8, 8)},
                                           (uint32_t)wane__get(e + 16, 4),
                                           number[wane__get(e + 20, 4)]};
        wane__memo_add(memo, &key, (int32_t)wane__get(e + 24, 4));
    }
    memo->evictions = 0; /* of a larger memo's file; nobody used them here */
    return WANE_OK;
}

/* One fact of an origin, from `start` to the next comma, as far as it may be shown. */
static void show(const unsigned char *text, size_t size, size_t start, char out[64]) {
    size_t n = 0;
    for (size_t i = start; i < size && text[i] != ',' && n < 63; i++)
        out[n++] = text[i] >= ' ' && text[i] < 127 ? (char)text[i] : '?';
    out[n] = '\0';
}

/* Of another origin: the first fact in which they differ. */
static int foreign(const struct input *in, const unsigned char *text, size_t size, const char *origin) {
    size_t now = strlen(origin), start = 0, i = 0;
    for (; i < size && i < now && text[i] == (unsigned char)origin[i]; i++)
        if (text[i] == ' ' && i > 0 && text[i - 1] == ',') start = i + 1;
    char theirs[64], ours[64];
    show(text, size, start, theirs);
    show((const unsigned char *)origin, now, start, ours);
    return wane__fail(
        in->error, WANE_EUNSUPPORTED,
        "The memo %s was written under other conditions (\"%s\", now \"%s\"), so that it may not "
        "repeat what this model says. Remove it, or name another with --memo-file.",
        in->name, theirs, ours);
}

static int read_head(struct input *in, const char *origin, int vocab_size, uint32_t *tenants,
                     uint64_t *entries) {
    const unsigned char *all = in->at;
    size_t size = in->left;
    const unsigned char *head = take(in, HEAD);
    if (head == NULL || memcmp(head, magic, sizeof magic) != 0)
        return wane__fail(in->error, WANE_EFORMAT, "%s is no memo of wane's.", in->name);
    if (wane__get(head + 8, 4) != VERSION)
        return wane__fail(in->error, WANE_EFORMAT, "The memo %s has the form %u; this wane knows %d.",
                          in->name, (unsigned)wane__get(head + 8, 4), VERSION);
    if (in->left < TAIL || XXH3_64bits(all, size - TAIL) != wane__get(all + size - TAIL, 8))
        return damaged(in, "its checksum is wrong");
    in->left -= TAIL;
    *tenants = (uint32_t)wane__get(head + 12, 4);
    *entries = wane__get(head + 16, 8);
    const unsigned char *text = take(in, (size_t)wane__get(head + 28, 4));
    if (text == NULL) return damaged(in, "its origin goes past the end");
    if (wane__get(head + 28, 4) != strlen(origin) || memcmp(text, origin, strlen(origin)) != 0 ||
        wane__get(head + 24, 4) != (uint64_t)vocab_size)
        return foreign(in, text, (size_t)wane__get(head + 28, 4), origin);
    if (*tenants > WANE__MEMO_TENANTS) return damaged(in, "it names too many tenants");
    return WANE_OK;
}

int wane__memo_parse(struct wane__memo *memo, const char *name, const void *bytes, size_t size,
                     const char *origin, int vocab_size, wane_error *error) {
    struct input in = {name, bytes, size, error};
    uint32_t tenants = 0, *number = NULL;
    uint64_t entries = 0;
    int status = read_head(&in, origin, vocab_size, &tenants, &entries);
    if (status != WANE_OK) return status;
    number = wane__alloc_zero((size_t)tenants + 1, sizeof *number);
    if (number == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for the memo %s.", name);
    status = read_tenants(&in, memo, tenants, number);
    if (status == WANE_OK) status = read_entries(&in, memo, entries, number, tenants, vocab_size);
    wane__free(number);
    return status;
}

int wane__memo_load(struct wane__memo *memo, const char *path, const char *origin, int vocab_size,
                    wane_error *error) {
    char *bytes;
    size_t size;
    int status = wane__file_read(path, "the memo", (size_t)1 << 36, &bytes, &size, error);
    if (status != WANE_OK) return status;
    status = wane__memo_parse(memo, path, bytes, size, origin, vocab_size, error);
    wane__free(bytes);
    return status;
}
