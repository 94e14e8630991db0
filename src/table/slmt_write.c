/*
 * slmt_write.c - from a table's content to its file. The same content gives the same bytes, on every machine.
 *
 * Owns the file's image while it is made. Refuses content that a reader would have to refuse: orders, bounds, numbers
 * that are none.
 */
#include "table/slmt_file.h"

#include "core/bytes.h"
#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"
#include "sample/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ------------------------------------------------------------------- checking */

static bool within(float x, float low, float high) { /* false for NaN */
    return x >= low - 1e-3f && x <= high + 1e-3f;
}

static int check_head(const struct wane__slmt_content *c, wane_error *error) {
    const char *wrong = NULL;
    if (!wane__is_digest(c->origin.model) || !wane__is_digest(c->origin.tokenizer) ||
        c->origin.model[32] != '\0' || c->origin.tokenizer[32] != '\0')
        wrong = "the digest of its model or its tokenizer is not 32 hexadecimal digits";
    else if (c->origin.vocab_size < 1 || c->origin.vocab_size > WANE__SLMT_VOCAB_MOST)
        wrong = "its vocabulary does not have 1 to 16,777,216 tokens";
    else if (c->window < 1 || c->window > WANE__WINDOW_MOST)
        wrong = "its window is not 1 to 10 tokens";
    else if (c->depth < 1 || c->depth > WANE__SLMT_DEPTH)
        wrong = "its depth is not 1 to 5";
    else if (!within(c->min_stability, -1, 1) || !within(c->min_share, 0, 1))
        wrong = "its stability bounds are no cosine and no share";
    else if (c->entry_count > WANE__SLMT_ENTRIES_MOST || c->position_count > WANE__SLMT_POSITIONS_MOST ||
             c->phrases_size > WANE__SLMT_PHRASES_MOST)
        wrong = "it has more entries, positions or classifier bytes than a file can hold";
    return wrong == NULL ? WANE_OK
                         : wane__fail(error, WANE_EINVAL, "The table cannot be written: %s.", wrong);
}

/* NULL, or what is wrong. */
static const char *check_top(const struct wane__candidate *top, int count, int most, int vocab_size) {
    if (count < 1 || count > most) return "has none or too many candidates";
    for (int i = 0; i < count; i++) {
        if (top[i].token < 0 || top[i].token >= vocab_size) return "names a token outside the vocabulary";
        if (!isfinite(top[i].logit)) return "has a logit that is not a finite number";
        if (i > 0 && !wane__better(top[i - 1], top[i])) return "has candidates that are not best first";
        for (int j = 0; j < i; j++)
            if (top[j].token == top[i].token) return "names a token twice";
    }
    return NULL;
}

static int compare_keys(struct wane__slmt_key a, struct wane__slmt_key b) {
    if (a.window != b.window) return a.window < b.window ? -1 : 1;
    return a.ten < b.ten ? -1 : a.ten > b.ten;
}

static int check_entries(const struct wane__slmt_content *c, wane_error *error) {
    for (uint32_t i = 0; i < c->entry_count; i++) {
        const struct wane__slmt_entry *e = &c->entry[i];
        const char *wrong = check_top(e->top, e->top_count, c->depth, c->origin.vocab_size);
        if (wrong == NULL && i > 0 && compare_keys(e[-1].key, e->key) >= 0)
            wrong = "does not come after the one before it";
        if (wrong == NULL &&
            (!within(e->stability, -1, 1) || !within(e->agreement, 0, 1) || !within(e->mass, 0, 1)))
            wrong = "has a stability, agreement or mass out of range";
        if (wrong == NULL && e->kinds >> WANE__KINDS != 0) wrong = "has a kind that does not exist";
        if (wrong != NULL)
            return wane__fail(error, WANE_EINVAL, "The table cannot be written: entry %u %s.", i, wrong);
    }
    return WANE_OK;
}

/* Less than 0: in order. */
static int compare_positions(const struct wane__slmt_position *a, const struct wane__slmt_position *b) {
    if (a->entry != b->entry) return a->entry < b->entry ? -1 : 1;
    if (a->index != b->index) return a->index < b->index ? -1 : 1;
    return a->context < b->context ? -1 : a->context > b->context;
}

static int check_positions(const struct wane__slmt_content *c, wane_error *error) {
    for (uint32_t i = 0, of_one = 0; i < c->position_count; i++) {
        const struct wane__slmt_position *p = &c->position[i];
        const char *wrong = check_top(p->top, p->top_count, c->depth, c->origin.vocab_size);
        of_one = i > 0 && p[-1].entry == p->entry ? of_one + 1 : 1;
        if (p->entry >= c->entry_count) wrong = "belongs to no entry";
        if (wrong == NULL && i > 0 && compare_positions(p - 1, p) >= 0)
            wrong = "does not come after the one before it";
        if (wrong == NULL && of_one > WANE__SLMT_AT_ONE_MOST)
            wrong = "is one more than the 65,535 that an entry may have";
        if (wrong != NULL)
            return wane__fail(error, WANE_EINVAL, "The table cannot be written: position %u %s.", i, wrong);
    }
    return WANE_OK;
}

static int check_continuations(const struct wane__slmt_content *c, wane_error *error) {
    for (uint32_t i = 0; i < c->continuation_count; i++) {
        const struct wane__slmt_continuation *r = &c->continuation[i];
        const char *wrong = NULL;
        if (r->entry >= c->entry_count)
            wrong = "belongs to no entry";
        else if (i > 0 && r[-1].entry >= r->entry)
            wrong = "does not come after the one before it";
        else if (r->count < 1 || r->count > WANE__SLMT_CONTINUATION_MOST)
            wrong = "does not have 1 to 64 tokens";
        else if (!isnan(r->acceptance) && !within(r->acceptance, 0, 1))
            wrong = "has an acceptance that is no share";
        for (int k = 0; wrong == NULL && k < r->count; k++)
            if (r->token[k] < 0 || r->token[k] >= c->origin.vocab_size)
                wrong = "names a token outside the vocabulary";
        if (wrong != NULL)
            return wane__fail(error, WANE_EINVAL, "The table cannot be written: continuation %u %s.", i,
                              wrong);
    }
    return WANE_OK;
}

static int check(const struct wane__slmt_content *content, wane_error *error) {
    int status = check_head(content, error);
    if (status == WANE_OK) status = check_entries(content, error);
    if (status == WANE_OK) status = check_positions(content, error);
    if (status == WANE_OK) status = check_continuations(content, error);
    return status;
}

/* --------------------------------------------------------------------- layout */

/* Where an entry comes to stand. */
struct seat {
    uint64_t spread;
    uint32_t entry, slot;
};

struct making {
    const struct wane__slmt_content *content;
    struct seat *seat; /* in the order of the slots */
    uint32_t *slot_of; /* of an entry               */
    uint32_t *first;   /* of an entry's positions in the content; one more at the end */
    uint32_t *own;     /* of a position in the content: its place among the tokens, or SHARED */
    uint32_t token_count;
    struct wane__slmt_header header;
};

#define SHARED UINT32_MAX

static int compare_seats(const void *left, const void *right) {
    const struct seat *a = left, *b = right;
    if (a->spread != b->spread) return a->spread < b->spread ? -1 : 1;
    return a->entry < b->entry ? -1 : a->entry > b->entry; /* entries are in the order of their keys */
}

static void take_seats(struct making *m) {
    const struct wane__slmt_content *c = m->content;
    uint32_t range = wane__slmt_range(c->entry_count), next = 0;
    for (uint32_t i = 0; i < c->entry_count; i++)
        m->seat[i] = (struct seat){.spread = wane__slmt_spread(c->entry[i].key), .entry = i};
    if (c->entry_count > 0) qsort(m->seat, c->entry_count, sizeof *m->seat, compare_seats);
    for (uint32_t i = 0; i < c->entry_count; i++) {
        uint32_t place = wane__slmt_place(m->seat[i].spread, range);
        m->seat[i].slot = place > next ? place : next;
        next = m->seat[i].slot + 1;
        m->slot_of[m->seat[i].entry] = m->seat[i].slot;
    }
    m->header.range = range;
    m->header.slots = (next > range ? next : range) + 1;
}

/* The five as numbers of the entry's candidates; false when one is none of them. */
static bool share(const struct wane__slmt_entry *entry, const struct wane__slmt_position *position,
                  uint32_t *out) {
    uint32_t code = 0;
    for (int i = 0; i < WANE__SLMT_DEPTH; i++) {
        uint32_t reference = WANE__SLMT_NONE;
        for (int k = 0; i < position->top_count && k < entry->top_count; k++)
            if (entry->top[k].token == position->top[i].token) reference = (uint32_t)k;
        if (i < position->top_count && reference == WANE__SLMT_NONE) return false;
        code |= reference << WANE__SLMT_REFERENCE * i;
    }
    *out = code;
    return true;
}

static bool same_tokens(const struct wane__slmt_position *a, const struct wane__slmt_position *b) {
    if (a->top_count != b->top_count) return false;
    for (int i = 0; i < a->top_count; i++)
        if (a->top[i].token != b->top[i].token) return false;
    return true;
}

/* Tokens of a position that its entry does not have: an earlier position of the same entry may have them. */
static void place_own(struct making *m, uint32_t entry) {
    enum { LOOK_BACK = 32 };
    const struct wane__slmt_position *p = m->content->position;
    for (uint32_t i = m->first[entry]; i < m->first[entry + 1]; i++) {
        uint32_t code, looked = 0;
        m->own[i] = SHARED;
        if (share(&m->content->entry[entry], &p[i], &code)) continue;
        for (uint32_t k = i; k-- > m->first[entry] && m->own[i] == SHARED && looked++ < LOOK_BACK;)
            if (m->own[k] != SHARED && same_tokens(&p[k], &p[i])) m->own[i] = m->own[k];
        if (m->own[i] != SHARED) continue;
        m->own[i] = m->token_count;
        m->token_count += p[i].top_count;
    }
}

static int place_tokens(struct making *m, wane_error *error) {
    const struct wane__slmt_content *c = m->content;
    uint32_t at = 0;
    for (uint32_t i = 0; i <= c->entry_count; i++) {
        while (at < c->position_count && c->position[at].entry < i) at++;
        m->first[i] = at;
    }
    for (uint32_t i = 0; i < c->entry_count; i++) place_own(m, m->seat[i].entry);
    uint64_t all = m->token_count; /* at most 5 · 2^26 */
    for (uint32_t i = 0; i < c->continuation_count; i++) all += c->continuation[i].count;
    if (all > WANE__SLMT_TOKENS_MOST)
        return wane__fail(
            error, WANE_EINVAL,
            "The table cannot be written: its positions and continuations have %llu tokens of their own, "
            "more than the %u that a file can hold.",
            (unsigned long long)all, WANE__SLMT_TOKENS_MOST);
    m->header.tokens = (uint32_t)all;
    return WANE_OK;
}

static void place_sections(struct wane__slmt_header *header, uint64_t phrases) {
    const struct {
        uint64_t count;
        uint32_t record;
    } section[WANE__SLMT_SECTIONS] = {{header->slots, sizeof(struct wane__slmt_slot)},
                                      {header->positions, sizeof(struct wane__slmt_record)},
                                      {header->continuations, sizeof(struct wane__slmt_run)},
                                      {header->tokens, sizeof(uint32_t)},
                                      {phrases, 1}};
    uint64_t offset = WANE__SLMT_PAGE;
    for (uint32_t i = 0; i < WANE__SLMT_SECTIONS; i++) {
        header->section[i] = (struct wane__slmt_section){.kind = i,
                                                         .record = section[i].record,
                                                         .offset = offset,
                                                         .size = section[i].count * section[i].record};
        offset += wane__slmt_page_up(header->section[i].size);
    }
    header->file_size = offset;
}

static void fill_header(struct making *m) {
    const struct wane__slmt_content *c = m->content;
    struct wane__slmt_header *h = &m->header;
    memcpy(h->magic, WANE__SLMT_MAGIC, sizeof h->magic);
    h->version = WANE__SLMT_VERSION;
    h->header_size = sizeof *h;
    h->hash = WANE__SLMT_HASH;
    h->sections = WANE__SLMT_SECTIONS;
    memcpy(h->model, c->origin.model, sizeof h->model);
    memcpy(h->tokenizer, c->origin.tokenizer, sizeof h->tokenizer);
    h->vocab_size = (uint32_t)c->origin.vocab_size;
    h->trace_version = (uint32_t)c->origin.version;
    h->built_at = c->built_at;
    h->window = (uint32_t)c->window;
    h->depth = (uint32_t)c->depth;
    h->min_stability = c->min_stability;
    h->min_share = c->min_share;
    h->entries = c->entry_count;
    h->positions = c->position_count;
    h->continuations = c->continuation_count;
    place_sections(h, c->phrases_size);
}

/* ---------------------------------------------------------------------- image */

static uint16_t fixed(float x, float low, float high) {
    float share = (x - low) / (high - low);
    return (uint16_t)lrintf(65535.0f * (share < 0 ? 0 : share > 1 ? 1 : share));
}

static void put_slot(const struct making *m, uint32_t entry, uint32_t position,
                     struct wane__slmt_slot *slot) {
    const struct wane__slmt_entry *e = &m->content->entry[entry];
    slot->window = e->key.window;
    slot->ten = e->key.ten;
    slot->seen = e->seen;
    slot->position = position;
    slot->positions = (uint16_t)(m->first[entry + 1] - m->first[entry]);
    slot->stability = fixed(e->stability, -1, 1);
    slot->agreement = fixed(e->agreement, 0, 1);
    slot->mass = fixed(e->mass, 0, 1);
    slot->shape = (uint8_t)(e->top_count | e->kinds << 3);
    for (int i = 0; i < e->top_count; i++) {
        uint32_t token = (uint32_t)e->top[i].token;
        slot->logit[i] = e->top[i].logit;
        for (int b = 0; b < 3; b++) slot->token[3 * i + b] = (uint8_t)(token >> 8 * b);
    }
}

static void put_record(const struct making *m, uint32_t position, struct wane__slmt_record *record,
                       uint32_t *pool) {
    const struct wane__slmt_position *p = &m->content->position[position];
    record->index = p->index;
    record->context = p->context;
    for (int i = 0; i < p->top_count; i++) record->logit[i] = p->top[i].logit;
    uint32_t own = m->own[position];
    if (own == SHARED) {
        share(&m->content->entry[p->entry], p, &record->tokens);
        return;
    }
    record->tokens = WANE__SLMT_OWN | (uint32_t)p->top_count << WANE__SLMT_OWN_BITS | own;
    for (int i = 0; i < p->top_count; i++) pool[own + (uint32_t)i] = (uint32_t)p->top[i].token;
}

/* Continuations follow the slots of their entries. */
static void put_runs(const struct making *m, struct wane__slmt_run *run, uint32_t *pool) {
    const struct wane__slmt_content *c = m->content;
    uint32_t next = m->token_count, made = 0;
    for (uint32_t i = 0; i < c->entry_count; i++) {
        uint32_t low = 0, high = c->continuation_count, entry = m->seat[i].entry;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (c->continuation[middle].entry < entry)
                low = middle + 1;
            else
                high = middle;
        }
        if (low == c->continuation_count || c->continuation[low].entry != entry) continue;
        const struct wane__slmt_continuation *from = &c->continuation[low];
        float acceptance = isnan(from->acceptance) ? NAN : fminf(fmaxf(from->acceptance, 0), 1);
        run[made++] = (struct wane__slmt_run){.slot = m->seat[i].slot,
                                              .first = next,
                                              .count = from->count,
                                              .acceptance = acceptance};
        for (int k = 0; k < from->count; k++) pool[next++] = (uint32_t)from->token[k];
    }
}

static void put_all(const struct making *m, unsigned char *image) {
    const struct wane__slmt_section *section = m->header.section;
    struct wane__slmt_slot *slots = (void *)(image + section[WANE__SLMT_ENTRIES].offset);
    struct wane__slmt_record *records = (void *)(image + section[WANE__SLMT_POSITIONS].offset);
    struct wane__slmt_run *runs = (void *)(image + section[WANE__SLMT_CONTINUATIONS].offset);
    uint32_t *pool = (void *)(image + section[WANE__SLMT_TOKENS].offset);
    uint32_t position = 0;
    memcpy(image, &m->header, sizeof m->header);
    for (uint32_t i = 0; i < m->content->entry_count; i++) {
        uint32_t entry = m->seat[i].entry;
        put_slot(m, entry, position, &slots[m->seat[i].slot]);
        for (uint32_t k = m->first[entry]; k < m->first[entry + 1]; k++)
            put_record(m, k, &records[position++], pool);
    }
    put_runs(m, runs, pool);
    if (m->content->phrases_size > 0)
        memcpy(image + section[WANE__SLMT_PHRASES].offset, m->content->phrases, m->content->phrases_size);
}

void wane__slmt_seal(void *file) {
    struct wane__slmt_header *header = file;
    for (int i = 0; i < WANE__SLMT_SECTIONS; i++) {
        struct wane__slmt_section *section = &header->section[i];
        section->check =
            XXH3_64bits((const char *)file + section->offset, (size_t)wane__slmt_page_up(section->size));
    }
    header->check = XXH3_64bits(header, offsetof(struct wane__slmt_header, check));
}

/* ---------------------------------------------------------------------- public */

static void forget(struct making *m) {
    wane__free(m->seat);
    wane__free(m->slot_of);
    wane__free(m->first);
    wane__free(m->own);
}

/* Everything but the bytes: seats, tokens, the header. */
static int plan(struct making *m, const struct wane__slmt_content *content, wane_error *error) {
    *m = (struct making){.content = content};
    int status = check(content, error);
    if (status != WANE_OK) return status;
    m->seat = wane__alloc_zero(content->entry_count, sizeof *m->seat);
    m->slot_of = wane__alloc_zero(content->entry_count, sizeof *m->slot_of);
    m->first = wane__alloc_zero((size_t)content->entry_count + 1, sizeof *m->first);
    m->own = wane__alloc_zero(content->position_count, sizeof *m->own);
    if (m->seat == NULL || m->slot_of == NULL || m->first == NULL || m->own == NULL)
        return wane__fail(error, WANE_ENOMEM, "No memory to lay out a table of %u entries.",
                          content->entry_count);
    take_seats(m);
    status = place_tokens(m, error);
    if (status == WANE_OK) fill_header(m);
    return status;
}

uint64_t wane__slmt_size(uint64_t entries, uint64_t positions, uint64_t continuation_tokens) {
    /* What is pushed behind the range is rarely more than a few slots: a page of them. */
    uint64_t runs = entries < continuation_tokens ? entries : continuation_tokens;
    uint64_t slots = entries + 2 * entries / 3 + 2 + WANE__SLMT_PAGE / sizeof(struct wane__slmt_slot);
    return WANE__SLMT_PAGE + wane__slmt_page_up(slots * sizeof(struct wane__slmt_slot)) +
           wane__slmt_page_up(positions * sizeof(struct wane__slmt_record)) +
           wane__slmt_page_up(runs * sizeof(struct wane__slmt_run)) +
           wane__slmt_page_up((WANE__SLMT_DEPTH * positions + continuation_tokens) * sizeof(uint32_t));
}

int wane__slmt_measure(const struct wane__slmt_content *content, uint64_t *size, wane_error *error) {
    struct making m;
    int status = plan(&m, content, error);
    *size = status == WANE_OK ? m.header.file_size : 0;
    forget(&m);
    return status;
}

int wane__slmt_build(const struct wane__slmt_content *content, unsigned char **image, size_t *size,
                     wane_error *error) {
    struct making m;
    *image = NULL;
    *size = 0;
    int status = plan(&m, content, error);
    if (status == WANE_OK) {
        unsigned char *made = wane__alloc_zero((size_t)m.header.file_size, 1);
        if (made == NULL) {
            status = wane__fail(error, WANE_ENOMEM, "No memory for a table of %llu bytes.",
                                (unsigned long long)m.header.file_size);
        } else {
            put_all(&m, made);
            wane__slmt_seal(made);
            *image = made;
            *size = (size_t)m.header.file_size;
        }
    }
    forget(&m);
    return status;
}

int wane__slmt_write(const char *path, const struct wane__slmt_content *content, wane_error *error) {
    unsigned char *image;
    size_t size;
    int status = wane__slmt_build(content, &image, &size, error);
    if (status != WANE_OK) return status;
    status = wane__file_write(path, "the table", image, size, 0644, error);
    wane__free(image);
    return status;
}
