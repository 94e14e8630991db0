/*
 * slmt_read.c - opens a table's file. Nothing in it is believed: sizes follow from counts, every order that a lookup relies
 * on is checked, every number that is used as a place is checked against what it points into.
 */
#include "table/slmt_read.h"

#include "core/bytes.h"
#include "core/error.h"
#include "core/memory.h"
#include "sample/order.h"
#include "table/sign.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sodium.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define SIZE_MOST (UINT64_C(1) << 33)
/* Where systems have pages of this size; tables from a quarter of it on get whole ones. */
#define HUGE_PAGE ((size_t)2 << 20)
#define HUGE_FROM ((size_t)1 << 19)

static const char *const section_names[WANE__SLMT_SECTIONS] = {"entries", "positions", "continuations",
                                                               "tokens", "phrase classifier"};

/* Where a check stands, so that each can complain in one line. */
struct checking {
    const char *name;
    const struct wane__slmt *table;
    wane_error *error;
};

static int damaged(const struct checking *c, const char *what) {
    return wane__fail(c->error, WANE_EFORMAT, "%s cannot be used: %s. Build the table again.", c->name, what);
}

/* --------------------------------------------------------------------- header */

/* What tells a table from another file, a whole one from a cut one, and this version from another. */
static int check_first(const struct checking *c, size_t size) {
    const struct wane__slmt_header *h = c->table->header;
    if (size < sizeof h->magic || memcmp(h->magic, WANE__SLMT_MAGIC, sizeof h->magic) != 0)
        return wane__fail(c->error, WANE_EFORMAT,
                          "%s is not a table: it does not begin as a .slmt file does.", c->name);
    if (size < sizeof *h)
        return wane__fail(c->error, WANE_EFORMAT,
                          "%s is cut short: it has %zu bytes, and its header alone takes %zu. Copy it again.",
                          c->name, size, sizeof *h);
    if (h->version != WANE__SLMT_VERSION)
        return wane__fail(c->error, WANE_EFORMAT,
                          "%s is a table of version %u; this wane reads version %d. Build the table again.",
                          c->name, h->version, WANE__SLMT_VERSION);
    if (h->check != XXH3_64bits(h, offsetof(struct wane__slmt_header, check)))
        return damaged(c, "its header's checksum does not fit");
    if (h->file_size > size)
        return wane__fail(c->error, WANE_EFORMAT,
                          "%s is cut short: it has %zu of its %llu bytes. Copy it again.", c->name, size,
                          (unsigned long long)h->file_size);
    if (h->file_size < size)
        return wane__fail(c->error, WANE_EFORMAT,
                          "%s is too long: it has %zu bytes and should have %llu. Copy it again.", c->name,
                          size, (unsigned long long)h->file_size);
    if (h->hash != WANE__SLMT_HASH)
        return wane__fail(c->error, WANE_EFORMAT,
                          "%s names contexts in way %u; this wane knows way %u. Build the table again.",
                          c->name, h->hash, WANE__SLMT_HASH);
    return WANE_OK;
}

static int check_numbers(const struct checking *c) {
    const struct wane__slmt_header *h = c->table->header;
    uint32_t odd = 0;
    for (size_t i = 0; i < sizeof h->reserved / sizeof *h->reserved; i++) odd |= h->reserved[i];
    for (size_t i = 0; i < sizeof h->zeros; i++) odd |= h->zeros[i];
    if (odd != 0 || h->header_size != sizeof *h || h->sections != WANE__SLMT_SECTIONS)
        return damaged(c, "its header holds what this version does not have");
    if (!wane__is_digest(h->model) || !wane__is_digest(h->tokenizer) || h->vocab_size < 1 ||
        h->vocab_size > WANE__SLMT_VOCAB_MOST)
        return damaged(c, "its header does not say which model it is of");
    if (h->window < 1 || h->window > WANE__WINDOW_MOST || h->depth < 1 || h->depth > WANE__SLMT_DEPTH ||
        !isfinite(h->min_stability) || !isfinite(h->min_share))
        return damaged(c, "its parameters are out of range");
    if (h->entries > WANE__SLMT_ENTRIES_MOST || h->positions > WANE__SLMT_POSITIONS_MOST ||
        h->continuations > h->entries || h->tokens > WANE__SLMT_TOKENS_MOST ||
        h->range != wane__slmt_range(h->entries) || h->slots <= h->range ||
        h->slots > h->range + h->entries + 1)
        return damaged(c, "its counts make no sense");
    return WANE_OK;
}

static int check_sections(const struct checking *c) {
    const struct wane__slmt_header *h = c->table->header;
    const uint64_t size[WANE__SLMT_SECTIONS] = {h->slots * (uint64_t)sizeof(struct wane__slmt_slot),
                                                h->positions * (uint64_t)sizeof(struct wane__slmt_record),
                                                h->continuations * (uint64_t)sizeof(struct wane__slmt_run),
                                                h->tokens * (uint64_t)sizeof(uint32_t),
                                                h->section[WANE__SLMT_PHRASES].size};
    static const uint32_t record[WANE__SLMT_SECTIONS] = {sizeof(struct wane__slmt_slot),
                                                         sizeof(struct wane__slmt_record),
                                                         sizeof(struct wane__slmt_run), sizeof(uint32_t), 1};
    uint64_t offset = WANE__SLMT_PAGE;
    if (size[WANE__SLMT_PHRASES] > WANE__SLMT_PHRASES_MOST)
        return damaged(c, "its phrase classifier is too large");
    for (uint32_t i = 0; i < WANE__SLMT_SECTIONS; i++) {
        const struct wane__slmt_section *s = &h->section[i];
        if (s->kind != i || s->record != record[i] || s->offset != offset || s->size != size[i])
            return wane__fail(
                c->error, WANE_EFORMAT,
                "%s cannot be used: its %s are not where they should be. Build the table again.", c->name,
                section_names[i]);
        offset += wane__slmt_page_up(s->size);
    }
    if (offset != h->file_size) return damaged(c, "its sections do not make up the file");
    for (uint32_t i = 0; i < WANE__SLMT_SECTIONS; i++) {
        const struct wane__slmt_section *s = &h->section[i];
        if (XXH3_64bits((const char *)h + s->offset, (size_t)wane__slmt_page_up(s->size)) != s->check)
            return wane__fail(c->error, WANE_EFORMAT,
                              "%s is damaged: the checksum of its %s does not fit. Copy it again.", c->name,
                              section_names[i]);
    }
    return WANE_OK;
}

static int check_origin(const struct checking *c, const struct wane__trace_origin *expected) {
    const struct wane__slmt_header *h = c->table->header;
    if (expected == NULL) return WANE_OK;
    if (memcmp(h->tokenizer, expected->tokenizer, sizeof h->tokenizer) != 0 ||
        h->vocab_size != (uint32_t)expected->vocab_size)
        return wane__fail(
            c->error, WANE_EUNSUPPORTED,
            "%s is of another tokenizer (%.8s, %u tokens) than the loaded model's (%.8s, %d tokens).",
            c->name, h->tokenizer, h->vocab_size, expected->tokenizer, expected->vocab_size);
    if (memcmp(h->model, expected->model, sizeof h->model) != 0)
        return wane__fail(
            c->error, WANE_EUNSUPPORTED,
            "%s is of another model (%.8s) than the loaded one (%.8s), though their tokenizers are the same.",
            c->name, h->model, expected->model);
    return WANE_OK;
}

/* -------------------------------------------------------------------- records */

int wane__slmt_top(const struct wane__slmt_slot *slot, struct wane__candidate out[WANE__SLMT_DEPTH]) {
    int count = slot->shape & 7;
    for (int i = 0; i < count; i++)
        out[i] = (struct wane__candidate){wane__slmt_token(slot->token + 3 * i), slot->logit[i]};
    return count;
}

int wane__slmt_top_at(const struct wane__slmt *table, const struct wane__slmt_slot *slot,
                      const struct wane__slmt_record *record, struct wane__candidate out[WANE__SLMT_DEPTH]) {
    int count = 0;
    if (record->tokens & WANE__SLMT_OWN) {
        const uint32_t *token = table->token + (record->tokens & (WANE__SLMT_TOKENS_MOST - 1));
        count = (int)(record->tokens >> WANE__SLMT_OWN_BITS & 7);
        for (int i = 0; i < count; i++)
            out[i] = (struct wane__candidate){(int32_t)token[i], record->logit[i]};
        return count;
    }
    for (uint32_t code = record->tokens; count < WANE__SLMT_DEPTH && (code & 7) != WANE__SLMT_NONE;
         code >>= WANE__SLMT_REFERENCE, count++)
        out[count] =
            (struct wane__candidate){wane__slmt_token(slot->token + 3 * (code & 7)), record->logit[count]};
    return count;
}

static bool top_is_sound(const struct checking *c, const struct wane__candidate *top, int count) {
    for (int i = 0; i < count; i++) {
        if (top[i].token < 0 || (uint32_t)top[i].token >= c->table->header->vocab_size ||
            !isfinite(top[i].logit))
            return false;
        if (i > 0 && !wane__better(top[i - 1], top[i])) return false;
        for (int j = 0; j < i; j++)
            if (top[j].token == top[i].token) return false;
    }
    return count >= 1 && count <= (int)c->table->header->depth;
}

/* May the places that a position's tokens name be read? */
static bool tokens_are_there(const struct checking *c, const struct wane__slmt_slot *slot,
                             const struct wane__slmt_record *record) {
    if (record->tokens & WANE__SLMT_OWN) {
        uint32_t first = record->tokens & (WANE__SLMT_TOKENS_MOST - 1);
        uint32_t count = record->tokens >> WANE__SLMT_OWN_BITS & 7;
        return count >= 1 && count <= WANE__SLMT_DEPTH && first <= c->table->header->tokens &&
               count <= c->table->header->tokens - first;
    }
    bool over = false;
    for (int i = 0; i < WANE__SLMT_DEPTH; i++) {
        uint32_t reference = record->tokens >> WANE__SLMT_REFERENCE * i & 7;
        if (reference == WANE__SLMT_NONE)
            over = true;
        else if (over || reference >= (uint32_t)(slot->shape & 7))
            return false;
    }
    return record->tokens >> WANE__SLMT_REFERENCE * WANE__SLMT_DEPTH == 0;
}

static bool positions_are_sound(const struct checking *c, const struct wane__slmt_slot *slot) {
    struct wane__candidate top[WANE__SLMT_DEPTH];
    const struct wane__slmt_record *r = c->table->record + slot->position;
    for (uint32_t i = 0; i < slot->positions; i++) {
        if (!tokens_are_there(c, slot, &r[i])) return false;
        if (!top_is_sound(c, top, wane__slmt_top_at(c->table, slot, &r[i], top))) return false;
        if (i > 0 && !(r[i - 1].index < r[i].index ||
                       (r[i - 1].index == r[i].index && r[i - 1].context < r[i].context)))
            return false;
    }
    return true;
}

static struct wane__slmt_key key_of(const struct wane__slmt_slot *slot) {
    return (struct wane__slmt_key){.window = slot->window, .ten = slot->ten};
}

/* Is this entry behind the last one, at its place or, pushed there by that one, directly behind it? */
static bool stands_right(const struct wane__slmt *t, uint32_t at, uint32_t next,
                         const struct wane__slmt_slot *last) {
    const struct wane__slmt_slot *slot = &t->slot[at];
    uint64_t spread = wane__slmt_spread(key_of(slot));
    uint32_t place = wane__slmt_place(spread, t->range);
    if (at != (place > next ? place : next)) return false;
    if (last == NULL) return true;
    uint64_t before = wane__slmt_spread(key_of(last));
    if (before != spread) return before < spread;
    return last->window < slot->window || (last->window == slot->window && last->ten < slot->ten);
}

static bool is_zero(const void *bytes, size_t size) {
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < size; i++)
        if (byte[i] != 0) return false;
    return true;
}

static int check_entries(const struct checking *c) {
    const struct wane__slmt *t = c->table;
    const struct wane__slmt_slot *last = NULL;
    struct wane__candidate top[WANE__SLMT_DEPTH];
    uint32_t entries = 0, positions = 0, next = 0;
    for (uint32_t i = 0; i < t->slots; i++) {
        const struct wane__slmt_slot *slot = &t->slot[i];
        if (slot->shape == 0) {
            if (!is_zero(slot, sizeof *slot)) return damaged(c, "an empty entry is not empty");
            continue;
        }
        if (!stands_right(t, i, next, last)) return damaged(c, "its entries are not in their places");
        if (slot->shape & 0x80 || (slot->shape & 7) > WANE__SLMT_DEPTH ||
            !top_is_sound(c, top, wane__slmt_top(slot, top)))
            return damaged(c, "an entry's candidates make no sense");
        if (slot->position != positions || slot->positions > t->header->positions - positions)
            return damaged(c, "an entry's positions are not where they should be");
        if (!positions_are_sound(c, slot)) return damaged(c, "an entry's positions make no sense");
        positions += slot->positions;
        entries++;
        next = i + 1;
        last = slot;
    }
    if (next == t->slots) return damaged(c, "its last slot is not empty");
    if (entries != t->header->entries || positions != t->header->positions ||
        t->slots != (next > t->range ? next : t->range) + 1)
        return damaged(c, "it does not hold as many entries or positions as it says");
    return WANE_OK;
}

static int check_runs(const struct checking *c) {
    const struct wane__slmt *t = c->table;
    for (uint32_t i = 0; i < t->header->tokens; i++)
        if (t->token[i] >= t->header->vocab_size)
            return damaged(c, "it names a token outside the vocabulary");
    for (uint32_t i = 0; i < t->header->continuations; i++) {
        const struct wane__slmt_run *run = &t->run[i];
        bool sound = run->slot < t->slots && t->slot[run->slot].shape != 0 &&
                     (i == 0 || run[-1].slot < run->slot) && run->count >= 1 &&
                     run->count <= WANE__SLMT_CONTINUATION_MOST && run->first <= t->header->tokens &&
                     run->count <= t->header->tokens - run->first &&
                     (isnan(run->acceptance) || (run->acceptance >= 0 && run->acceptance <= 1));
        if (!sound) return damaged(c, "a continuation makes no sense");
    }
    return WANE_OK;
}

int wane__slmt_parse(const char *name, const void *bytes, size_t size,
                     const struct wane__trace_origin *expected, struct wane__slmt *table, wane_error *error) {
    const unsigned char *base = bytes;
    struct checking c = {.name = name, .table = table, .error = error};
    table->bytes = base;
    table->size = size;
    table->header = bytes;
    int status = check_first(&c, size);
    if (status == WANE_OK) status = check_numbers(&c);
    if (status == WANE_OK) status = check_sections(&c);
    if (status == WANE_OK) status = check_origin(&c, expected);
    if (status != WANE_OK) return status;
    const struct wane__slmt_section *section = table->header->section;
    table->slot = (const void *)(base + section[WANE__SLMT_ENTRIES].offset);
    table->record = (const void *)(base + section[WANE__SLMT_POSITIONS].offset);
    table->run = (const void *)(base + section[WANE__SLMT_CONTINUATIONS].offset);
    table->token = (const void *)(base + section[WANE__SLMT_TOKENS].offset);
    table->phrases = base + section[WANE__SLMT_PHRASES].offset;
    table->range = table->header->range;
    table->slots = table->header->slots;
    status = check_runs(&c);
    return status == WANE_OK ? check_entries(&c) : status;
}

/* ----------------------------------------------------------------------- file */

bool wane__slmt_same_file(const struct wane__slmt_identity *a, const struct wane__slmt_identity *b) {
    return a->device == b->device && a->inode == b->inode;
}

bool wane__slmt_unchanged(const struct wane__slmt_identity *a, const struct wane__slmt_identity *b) {
    return wane__slmt_same_file(a, b) && a->size == b->size && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

static struct wane__slmt_identity identity_of(const struct stat *facts) {
#ifdef __APPLE__
    struct timespec changed = facts->st_mtimespec;
#else
    struct timespec changed = facts->st_mtim;
#endif
    return (struct wane__slmt_identity){.device = facts->st_dev,
                                        .inode = facts->st_ino,
                                        .size = facts->st_size,
                                        .changed = changed};
}

bool wane__slmt_identify(const char *path, struct wane__slmt_identity *identity) {
    struct stat facts;
    *identity = (struct wane__slmt_identity){0};
    if (stat(path, &facts) != 0) return false;
    *identity = identity_of(&facts);
    return true;
}

/*
 * Memory of our own, which nobody else can shrink; written once, then read-only. Whole huge pages where there are such: a
 * lookup that is in no cache would else spend most of its time on finding out where its page is. `size` grows to what is
 * mapped.
 */
static void *own_memory(size_t *size) {
    size_t page = *size >= HUGE_FROM ? HUGE_PAGE : WANE__SLMT_PAGE;
    *size = (*size + page - 1) / page * page;
    size_t room = page == HUGE_PAGE ? *size + page : *size;
    char *memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    if (page == HUGE_PAGE) { /* keep the part that begins on a huge page */
        size_t before = (page - (uintptr_t)memory % page) % page;
        if (before > 0) munmap(memory, before);
        if (before < page) munmap(memory + before + *size, page - before);
        memory += before;
#ifdef MADV_HUGEPAGE
        madvise(memory, *size, MADV_HUGEPAGE); /* no matter if refused */
#endif
    }
    return memory;
}

static int read_all(int fd, const char *path, unsigned char *to, size_t size, size_t *got,
                    wane_error *error) {
    *got = 0;
    while (*got < size) {
        size_t most = size - *got < 1u << 30 ? size - *got : 1u << 30;
        ssize_t n = read(fd, to + *got, most);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return wane__fail(error, WANE_EIO, "Cannot read the table %s: %s.", path, strerror(errno));
        if (n == 0) break; /* cut while it was read: the checks will say so */
        *got += (size_t)n;
    }
    return WANE_OK;
}

static int copy_file(int fd, const char *path, struct wane__slmt *table, wane_error *error) {
    struct stat facts;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size < 0 ||
        (uint64_t)facts.st_size > SIZE_MOST)
        return wane__fail(error, WANE_EFORMAT,
                          "%s is not a table: it is no plain file, or larger than 8 GiB.", path);
    size_t size = (size_t)facts.st_size, room = size > 0 ? size : 1;
    table->identity = identity_of(&facts);
    unsigned char *memory = own_memory(&room);
    if (memory == NULL)
        return wane__fail(error, WANE_ENOMEM, "No memory for the table %s of %zu bytes.", path, size);
    table->bytes = memory;
    table->mapped = room;
    int status = read_all(fd, path, memory, size, &table->size, error);
    if (status == WANE_OK && mprotect(memory, room, PROT_READ) != 0)
        status = wane__fail(error, WANE_EIO, "Cannot protect the memory of the table %s: %s.", path,
                            strerror(errno));
    return status;
}

static void name_digest(struct wane__slmt *table) {
    unsigned char hash[32];
    crypto_generichash(hash, sizeof hash, table->bytes, table->size, NULL, 0);
    sodium_bin2hex(table->digest, sizeof table->digest, hash, sizeof hash);
}

int wane__slmt_open(const char *path, const struct wane__trace_origin *expected, const unsigned char *key,
                    struct wane__slmt *table, wane_error *error) {
    *table = (struct wane__slmt){0};
    if (sodium_init() < 0) return wane__fail(error, WANE_EINTERNAL, "libsodium cannot start.");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return wane__fail(error, errno == ENOENT ? WANE_ENOENT : WANE_EIO, "Cannot open the table %s: %s.",
                          path, strerror(errno));
    int status = copy_file(fd, path, table, error);
    close(fd);
    if (status == WANE_OK && key != NULL) {
        status = wane__sign_check_bytes(path, table->bytes, table->size, key, error);
        table->verified = status == WANE_OK;
    }
    if (status == WANE_OK) status = wane__slmt_parse(path, table->bytes, table->size, expected, table, error);
    if (status == WANE_OK)
        name_digest(table);
    else
        wane__slmt_close(table);
    return status;
}

void wane__slmt_close(struct wane__slmt *table) {
    if (table->mapped > 0) munmap((void *)(uintptr_t)table->bytes, table->mapped);
    *table = (struct wane__slmt){0};
}
