/* quality.c - from settings to wane_quality, the file's domains to wane_domain. Refuses to judge values: the settings did. */
#include "cli.h"
#include "text.h"

#include <stdio.h>
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

/* Who names a profile means it to steer. */
static bool governs(const struct settings *all, const struct settings *own) {
    const struct setting_value *v = pick(all, own, SET_GOVERNOR);
    return v->on || (v->source == FROM_DEFAULT && pick(all, own, SET_PROFILE)->text != NULL);
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
    q->doubt_allowance = real(all, own, SET_DOUBT_ALLOWANCE);
    q->doubt_votes = whole(all, own, SET_DOUBT_VOTES);
    q->revival_after = whole(all, own, SET_REVIVAL_AFTER);
    q->revival_top = real(all, own, SET_REVIVAL_TOP);
    q->forced_above = real(all, own, SET_FORCED_ABOVE);
    q->forced_every = whole(all, own, SET_FORCED_EVERY);
    q->breaker_wakes = whole(all, own, SET_BREAKER_WAKES);
    q->breaker_seconds = whole(all, own, SET_BREAKER_SECONDS);
    q->breaker_temperature = real(all, own, SET_BREAKER_TEMPERATURE);
    q->governor = governs(all, own);
    q->stability = real(all, own, SET_STABILITY);
    q->fuse = wane_fuse_from(pick(all, own, SET_FUSE)->text);
    q->fuse_window = whole(all, own, SET_FUSE_WINDOW);
    q->fuse_limit = real(all, own, SET_FUSE_LIMIT);
    q->entropies = pick(all, own, SET_ENTROPIES)->on;
    q->fallback = wane_fallback_from(pick(all, own, SET_FALLBACK)->text);
    q->consistency = real(all, own, SET_CONSISTENCY);
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

/* ---- what belongs to the model ------------------------------------------------------------------------------------------ */

unsigned modes_used(const struct settings *settings) {
    unsigned asked = 0;
    unsigned used = 1u << wane_mode_from(setting_text(settings, SET_MODE));
    if (setting_text(settings, SET_REQUEST_MODES) != NULL)
        modes_from(setting_text(settings, SET_REQUEST_MODES), &asked);
    if (setting_text(settings, SET_KEY_FILE) != NULL) { /* a bad file is the server's to refuse */
        wane_error ignored = {0};
        unsigned given = 0;
        wane_key_file_modes(setting_text(settings, SET_KEY_FILE), &given, &ignored);
        used |= given;
    }
    for (size_t i = 0; i < settings->domain_count; i++)
        used |= 1u << wane_mode_from(pick(settings, settings->domains[i].own, SET_MODE)->text);
    return used | asked;
}

static void tell(wane_log_fn log, void *log_user, const char *format, const char *what) {
    char *line = text_format(format, what);
    if (log != NULL)
        log(log_user, WANE_LOG_WARN, line);
    else
        cli_say("%s", line);
    free(line);
}

/* A gate that was named must be there; that none ships is no fault, but costs something. */
static int attach_gate(const struct settings *settings, wane_model *model, wane_log_fn log, void *log_user) {
    const char *file = setting_text(settings, SET_GATE);
    wane_error error = {0};
    int result = wane_model_set_gate(model, file, &error);
    if (result == WANE_OK) return EXIT_FINE;
    if (file != NULL || result != WANE_ENOENT) return cli_fail_wane(&error);
    tell(log, log_user, "%s Without one, every reply in mode wane is voted on.", error.text);
    return EXIT_FINE;
}

static bool looks(const struct settings *all, const struct settings *own) {
    return pick(all, own, SET_CONSISTENCY)->real > 0;
}

/* Does anybody ask for this: the server, or one of its domains? */
static bool any_asks(const struct settings *settings,
                     bool (*asks)(const struct settings *all, const struct settings *own)) {
    bool any = asks(settings, NULL);
    for (size_t i = 0; i < settings->domain_count; i++) any = any || asks(settings, settings->domains[i].own);
    return any;
}

static bool has_profile(const struct settings *own) {
    return own != NULL && own->value[SET_PROFILE].source != FROM_DEFAULT;
}

/* Does it steer by the model's own profile? */
static bool governs_plainly(const struct settings *all, const struct settings *own) {
    return governs(all, own) && !has_profile(own);
}

/* One of a domain's own profiles; one that was tuned for another domain may be meant. */
static int add_profile(const struct settings_domain *domain, wane_model *model, wane_quality *quality,
                       wane_log_fn log, void *log_user) {
    const char *path = domain->own->value[SET_PROFILE].text;
    wane_profile profile;
    wane_error error = {0};
    if (wane_model_add_profile(model, path, &quality->profile, &error) != WANE_OK)
        return cli_fail_wane(&error);
    if (wane_profile_load(path, &profile, NULL) != WANE_OK) return EXIT_FINE;
    if (profile.domain[0] != '\0' && strcmp(profile.domain, domain->name) != 0) {
        char *what =
            text_format("%s: its profile %s was tuned for the domain %s", domain->name, path, profile.domain);
        tell(log, log_user, "domain %s.", what);
        free(what);
    }
    return EXIT_FINE;
}

int profiles_attach(const struct settings *settings, wane_model *model, struct domains *domains,
                    wane_log_fn log, void *log_user) {
    int code = EXIT_FINE;
    for (size_t i = 0; i < settings->domain_count && code == EXIT_FINE; i++)
        if (has_profile(settings->domains[i].own))
            code = add_profile(&settings->domains[i], model, &domains->quality[i], log, log_user);
    return code;
}

/* A profile that was named must be there, and fit; that none ships only leaves the governor off. */
static int attach_profile(const struct settings *settings, wane_model *model, wane_log_fn log,
                          void *log_user) {
    const char *file = setting_text(settings, SET_PROFILE);
    wane_governor_state state;
    wane_error error = {0};
    int result = wane_model_set_profile(model, file, &error);
    if (result != WANE_OK && (file != NULL || result != WANE_ENOENT)) return cli_fail_wane(&error);
    if (result != WANE_OK) {
        tell(log, log_user, "%s The governor is off.", error.text);
        return EXIT_FINE;
    }
    wane_model_get_governor_state(model, &state);
    if (!state.on)
        tell(log, log_user, "The profile %s says that the model shows no signal: the governor is off.",
             state.path);
    return EXIT_FINE;
}

int governor_attach(const struct settings *settings, wane_model *model, unsigned modes, wane_log_fn log,
                    void *log_user) {
    wane_error error = {0};
    if ((modes & 1u << WANE_MODE_WANE) == 0) return EXIT_FINE;
    bool wanted = any_asks(settings, governs_plainly) || settings->value[SET_AB_GOVERNOR].real > 0;
    int code = wanted ? attach_profile(settings, model, log, log_user) : EXIT_FINE;
    if (code != EXIT_FINE || !any_asks(settings, looks)) return code;
    return wane_model_set_consistency(model, true, &error) == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
}

int rules_attach(const struct settings *settings, wane_model *model, unsigned modes) {
    const char *file = setting_text(settings, SET_RULES);
    wane_error error = {0};
    if (file == NULL || (modes & ~(1u << WANE_MODE_OFF)) == 0) return EXIT_FINE;
    return wane_model_set_rules(model, file, &error) == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
}

int gate_attach(const struct settings *settings, wane_model *model, unsigned modes, wane_log_fn log,
                void *log_user) {
    bool judges = (modes & 1u << WANE_MODE_WANE) != 0;
    return judges ? attach_gate(settings, model, log, log_user) : EXIT_FINE;
}

int breaker_attach(const struct settings *settings, wane_model *model, unsigned modes) {
    wane_quality quality;
    wane_error error = {0};
    quality_from(settings, &quality);
    if (quality.breaker_wakes == 0 || (modes & 1u << WANE_MODE_WANE) == 0) return EXIT_FINE;
    /* The server looks at it, and tells. */
    return wane_model_set_breaker(model, &quality, NULL, NULL, &error) == WANE_OK ? EXIT_FINE
                                                                                  : cli_fail_wane(&error);
}
