/*
 * kept.c - a queue of replies with an index by id; see kept.h. A reply is one block: its struct, then its strings. Owns those blocks;
 * hands out copies only, so that nobody holds the lock while a rating is written.
 */
#include "server/kept.h"

#include "core/memory.h"

#include <pthread.h>
#include <string.h>
#include <xxhash.h>

enum { STRINGS = 4 + WANE__KEPT_OTHERS };

struct item {
    struct wane__kept_reply reply; /* points into this block */
    size_t bytes;                  /* of the block */
    double until;
    struct item *newer, *next; /* in the queue; of the same slot */
};

struct wane__kept {
    pthread_mutex_t lock;
    size_t replies_most, bytes_most, slots; /* slots: a power of two */
    double seconds;
    struct item *oldest, *newest, **slot;
    struct wane__kept_state state;
};

struct wane__kept *wane__kept_new(size_t replies_most, size_t bytes_most, double seconds) {
    struct wane__kept *kept = wane__alloc_zero(1, sizeof *kept);
    if (kept == NULL) return NULL;
    kept->slots = 64;
    while (kept->slots < replies_most) kept->slots *= 2;
    kept->slot = wane__alloc_zero(kept->slots, sizeof(struct item *));
    if (kept->slot == NULL) {
        wane__free(kept);
        return NULL;
    }
    kept->replies_most = replies_most;
    kept->bytes_most = bytes_most;
    kept->seconds = seconds;
    pthread_mutex_init(&kept->lock, NULL);
    return kept;
}

static struct item **slot_of(struct wane__kept *kept, const char *id) {
    return &kept->slot[(size_t)XXH3_64bits(id, strlen(id)) & (kept->slots - 1)];
}

static void drop_oldest(struct wane__kept *kept) {
    struct item *item = kept->oldest, **at = slot_of(kept, item->reply.id);
    while (*at != item) at = &(*at)->next;
    *at = item->next;
    kept->oldest = item->newer;
    if (kept->oldest == NULL) kept->newest = NULL;
    kept->state.replies--;
    kept->state.bytes -= item->bytes;
    wane__free(item);
}

static void drop_old(struct wane__kept *kept, double now) {
    while (kept->oldest != NULL && kept->oldest->until <= now) drop_oldest(kept);
}

void wane__kept_free(struct wane__kept *kept) {
    if (kept == NULL) return;
    while (kept->oldest != NULL) drop_oldest(kept);
    pthread_mutex_destroy(&kept->lock);
    wane__free(kept->slot);
    wane__free(kept);
}

/* The strings of a reply, one after the other. */
static void strings_of(struct wane__kept_reply *r, const char **list[STRINGS]) {
    list[0] = &r->id;
    list[1] = &r->tenant;
    list[2] = &r->prompt;
    list[3] = &r->reply;
    for (int i = 0; i < WANE__KEPT_OTHERS; i++) list[4 + i] = &r->other[i];
}

/* A block of `head` bytes that begin with the reply, then its strings. */
static void *pack(const struct wane__kept_reply *reply, size_t head, size_t *bytes) {
    struct wane__kept_reply copy = *reply;
    const char **list[STRINGS];
    strings_of(&copy, list);
    *bytes = head;
    for (int i = 0; i < STRINGS; i++)
        if (*list[i] != NULL) *bytes += strlen(*list[i]) + 1;
    char *block = wane__alloc_zero(1, *bytes), *at = block + head;
    if (block == NULL) return NULL;
    for (int i = 0; i < STRINGS; i++) {
        if (*list[i] == NULL) continue;
        size_t size = strlen(*list[i]) + 1;
        memcpy(at, *list[i], size);
        *list[i] = at;
        at += size;
    }
    memcpy(block, &copy, sizeof copy);
    return block;
}

bool wane__kept_add(struct wane__kept *kept, const struct wane__kept_reply *reply, double now) {
    size_t bytes;
    struct item *item = pack(reply, sizeof *item, &bytes);
    if (item == NULL) return false;
    if (bytes > kept->bytes_most) {
        wane__free(item);
        return false;
    }
    item->bytes = bytes;
    item->until = now + kept->seconds;
    pthread_mutex_lock(&kept->lock);
    drop_old(kept, now);
    while (kept->oldest != NULL &&
           (kept->state.replies >= kept->replies_most || kept->state.bytes + bytes > kept->bytes_most)) {
        drop_oldest(kept);
        kept->state.evicted++;
    }
    struct item **slot = slot_of(kept, item->reply.id);
    item->next = *slot;
    *slot = item;
    if (kept->newest != NULL)
        kept->newest->newer = item;
    else
        kept->oldest = item;
    kept->newest = item;
    kept->state.replies++;
    kept->state.bytes += bytes;
    pthread_mutex_unlock(&kept->lock);
    return true;
}

struct wane__kept_reply *wane__kept_take(struct wane__kept *kept, const char *id, const char *tenant,
                                         int ratings_most, double now, bool *full) {
    struct wane__kept_reply *copy = NULL;
    size_t bytes;
    *full = false;
    pthread_mutex_lock(&kept->lock);
    drop_old(kept, now);
    struct item *item = *slot_of(kept, id);
    while (item != NULL && (strcmp(item->reply.id, id) != 0 || strcmp(item->reply.tenant, tenant) != 0))
        item = item->next;
    if (item != NULL) {
        *full = item->reply.ratings >= ratings_most;
        if (!*full) copy = pack(&item->reply, sizeof *copy, &bytes);
        if (copy != NULL) item->reply.ratings++;
    }
    pthread_mutex_unlock(&kept->lock);
    return copy;
}

void wane__kept_get_state(struct wane__kept *kept, struct wane__kept_state *state) {
    pthread_mutex_lock(&kept->lock);
    *state = kept->state;
    pthread_mutex_unlock(&kept->lock);
}
