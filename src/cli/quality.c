/* quality.c - from settings to wane_quality, the file's domains to wane_domain. Refuses to judge values: the settings did. */
#include "cli.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

/* A domain's value where its section gives one, else that of everybody. */
static const struct setting_value *pick(const struct settings *all, const struct settings *own, int id) {
    bool says = own != NULL && own->value[id].source != FROM_DEFAULT;
    return says ? &own->value[id] : &all->value[id];
}

static int whole(const struct settings *all, const struct settings *own, int id) {
    return (int)pick(all, own, id)->integer;
}

static float real(const struct settings *all, const struct settings *own, int id) {
    return (float)pick(all, own, id)->real;
}

static void fill(const struct settings *all, const struct settings *own, wane_quality *q) {
    wane_quality_init(q);
    q->mode = wane_mode_from(pick(all, own, SET_MODE)->text);
    q->clamp = whole(all, own, SET_CLAMP);
    q->dialogue_slope = real(all, own, SET_DIALOGUE_SLOPE);
    q->dialogue_scale = whole(all, own, SET_DIALOGUE_SCALE);
    q->dialogue_floor = real(all, own, SET_DIALOGUE_FLOOR);
    q->token_vote = pick(all, own, SET_TOKEN_VOTE)->on;
    q->hold = real(all, own, SET_HOLD);
    q->answers = whole(all, own, SET_ANSWERS);
    q->final_value = pick(all, own, SET_FINAL_VALUE)->text;
    q->odds_base = real(all, own, SET_ODDS_BASE);
    q->odds_entropy = real(all, own, SET_ODDS_ENTROPY);
    q->odds_documents = real(all, own, SET_ODDS_DOCUMENTS);
    q->documents = whole(all, own, SET_DOCUMENTS);
    q->doubt_budget = whole(all, own, SET_DOUBT_BUDGET);
    q->revival_after = whole(all, own, SET_REVIVAL_AFTER);
    q->revival_top = real(all, own, SET_REVIVAL_TOP);
    q->forced_above = real(all, own, SET_FORCED_ABOVE);
    q->forced_every = whole(all, own, SET_FORCED_EVERY);
    q->breaker_wakes = whole(all, own, SET_BREAKER_WAKES);
    q->breaker_seconds = whole(all, own, SET_BREAKER_SECONDS);
    q->breaker_temperature = real(all, own, SET_BREAKER_TEMPERATURE);
}

void quality_from(const struct settings *settings, wane_quality *quality) {
    fill(settings, NULL, quality);
}

void domains_from(const struct settings *settings, struct domains *domains) {
    size_t count = settings->domain_count;
    domains->list = text_alloc(count * sizeof *domains->list);
    domains->quality = text_alloc(count * sizeof *domains->quality);
    domains->count = count;
    for (size_t i = 0; i < count; i++) {
        fill(settings, settings->domains[i].own, &domains->quality[i]);
        domains->list[i] = (wane_domain){settings->domains[i].name, &domains->quality[i]};
    }
}

void domains_free(struct domains *domains) {
    free(domains->list);
    free(domains->quality);
}

int modes_from(const char *list, unsigned *modes) {
    *modes = 0;
    if (strcmp(list, "none") == 0 || list[0] == '\0') return EXIT_FINE;
    if (strcmp(list, "all") == 0) {
        *modes = 1u << WANE_MODE_OFF | 1u << WANE_MODE_LEGACY | 1u << WANE_MODE_WANE;
        return EXIT_FINE;
    }
    for (const char *at = list; *at != '\0';) {
        size_t length = strcspn(at, ",");
        char *name = text_copy_part(at, length);
        int mode = wane_mode_from(name);
        free(name);
        if (mode < 0)
            return cli_fail(EXIT_USAGE,
                            "request-modes is \"%.60s\"; it takes none, all, or some of off, legacy and wane "
                            "with commas between",
                            list);
        *modes |= 1u << mode;
        at += length + (at[length] == ',');
    }
    return EXIT_FINE;
}
