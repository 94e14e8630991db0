/*
 * prefix.c - owns the rule by which slots are chosen; refuses any sharing between tenants.
 *
 * Why not simply the longest common start: nearly all prompts share one (a BOS, a template's opening), and a
 * rule that follows it would overwrite a long conversation for three tokens while empty slots stand by.
 */
#include "server/prefix.h"

#include <string.h>

static int shared_start(const struct wane__prefix_slot *slot, const int32_t *prompt, int usable,
                        const char *tenant) {
    if (slot->count == 0 || slot->tenant == NULL || strcmp(slot->tenant, tenant) != 0) return 0;
    int most = slot->count < usable ? slot->count : usable, n = 0;
    while (n < most && slot->tokens[n] == prompt[n]) n++;
    return n;
}

struct wane__prefix_choice wane__prefix_choose(const struct wane__prefix_slot *slots, int slot_count,
                                               const int32_t *prompt, int count, const char *tenant,
                                               bool may_copy) {
    int oldest = -1, oldest_keep = 0; /* free, least recently used */
    int best = -1, best_keep = 0;     /* free, longest start; of equals the least recently used */
    int source = -1, source_keep = 0; /* longest start of all */
    int usable = count - 1;
    for (int i = 0; i < slot_count; i++) {
        int keep = shared_start(&slots[i], prompt, usable, tenant);
        if (keep > source_keep) source = i, source_keep = keep;
        if (slots[i].busy) continue;
        if (oldest < 0 || slots[i].used < slots[oldest].used) oldest = i, oldest_keep = keep;
        bool older = best >= 0 && slots[i].used < slots[best].used;
        if (best < 0 || keep > best_keep || (keep == best_keep && older)) best = i, best_keep = keep;
    }
    if (best < 0) return (struct wane__prefix_choice){-1, -1, 0};
    struct wane__prefix_choice in_place = {best, best, best_keep};

    if (may_copy && source_keep > best_keep + WANE__PREFIX_GAIN)
        return (struct wane__prefix_choice){oldest, source, source_keep};
    /* A continued conversation, or the same question once more: what is overwritten is not missed. */
    bool keeps_most = 2 * best_keep >= slots[best].count || best_keep == usable;
    if (keeps_most && best_keep > 0) return in_place;
    if (best_keep <= oldest_keep + WANE__PREFIX_GAIN)
        return (struct wane__prefix_choice){oldest, oldest, oldest_keep};
    if (may_copy) return (struct wane__prefix_choice){oldest, best, best_keep};
    return in_place;
}
