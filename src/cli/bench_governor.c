/*
 * bench_governor.c - `wane bench governor`: what the governor and its fuse do to replies. The same questions with the same seeds go to
 * two sides of one loaded model; what is compared is diversity, loops, and how often an answer is right.
 *
 * A side is `off` (mode wane, no governor, no fuse), `on` (both), or a section [domain.NAME] of the settings file as it stands there, so
 * that two profiles or two fuses can be compared as well. There is no vote on either.
 */
#include "bench_governor.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const set_names[GOVERNOR_SETS] = {"text", "questions", "tasks"};

/* ---- sides --------------------------------------------------------------------------------------------------------- */

static int set_side(struct governor_bench *bench, const char *name, struct governor_side *side) {
    bool on = strcmp(name, "on") == 0, found = on || strcmp(name, "off") == 0;
    side->name = name;
    side->profile = setting_text(bench->settings, SET_PROFILE);
    quality_from(bench->settings, &side->quality);
    side->quality.mode = WANE_MODE_WANE;
    side->quality.governor = on;
    side->quality.fuse = on ? WANE_FUSE_LOOP : WANE_FUSE_OFF;
    side->quality.fallback = WANE_FALLBACK_NONE;
    for (size_t i = 0; i < bench->domains.count && !found; i++) {
        found = strcmp(bench->domains.list[i].name, name) == 0;
        if (!found) continue;
        side->name = bench->domains.list[i].name;
        side->quality = bench->domains.quality[i];
        const struct setting_value *own = &bench->settings->domains[i].own->value[SET_PROFILE];
        if (own->source != FROM_DEFAULT) side->profile = own->text;
    }
    side->quality.answers = 1;
    side->quality.breaker_wakes = 0;
    if (!found)
        return cli_usage(
            "bench",
            "--sides names \"%.60s\"; a side is on, off, or the name of a section [domain.NAME] of the "
            "settings file",
            name);
    return EXIT_FINE;
}

/* "off,on". The names are kept in `words`. */
static int read_sides(struct governor_bench *bench, char *words) {
    char *comma = strchr(words, ',');
    if (comma == NULL || strchr(comma + 1, ',') != NULL)
        return cli_usage("bench", "--sides is \"%.60s\"; it takes two names with a comma between", words);
    *comma = '\0';
    if (strcmp(words, comma + 1) == 0)
        return cli_usage("bench", "--sides names \"%.60s\" twice; there would be nothing to compare", words);
    int code = set_side(bench, words, &bench->side[0]);
    return code == EXIT_FINE ? set_side(bench, comma + 1, &bench->side[1]) : code;
}

/* ---- what is asked ------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 32;
}

static void add_item(struct governor_bench *bench, int set, int number, int reply, const char *prompt,
                     const char *wanted) {
    bench->item = text_grow(bench->item, ((size_t)bench->count + 1) * sizeof *bench->item);
    struct governor_item *item = &bench->item[bench->count++];
    *item = (struct governor_item){.set = set, .group = number, .prompt = text_copy(prompt)};
    item->wanted = wanted != NULL ? text_copy(wanted) : NULL;
    item->name = text_format("%s/%d/%d", set_names[set], number, reply);
    item->seed = mix(bench->seed + mix(mix((uint64_t)set) + (uint64_t)number) + (uint64_t)reply) >> 16;
}

/* A task: an object with a prompt; what else is in it is its judge's. */
static int add_task(struct governor_bench *bench, const char *path, int number, const char *line) {
    json_error_t wrong;
    json_t *task = json_loads(line, JSON_REJECT_DUPLICATES, &wrong);
    const char *prompt = json_string_value(json_object_get(task, "prompt"));
    int code = EXIT_FINE;
    if (prompt == NULL)
        code = cli_fail(
            EXIT_FAILED,
            "%s, line %d: it is no task; a task is a JSON object with a string \"prompt\", in one line", path,
            number + 1);
    else
        add_item(bench, GOVERNOR_TASKS, number, 0, prompt, line);
    json_decref(task);
    return code;
}

static int add_line(struct governor_bench *bench, const char *path, int set, int number, char *line) {
    if (set == GOVERNOR_TASKS) return add_task(bench, path, number, line);
    if (set == GOVERNOR_TEXT) {
        for (int i = 0; i < bench->replies; i++) add_item(bench, set, number, i, line, NULL);
        return EXIT_FINE;
    }
    char *pattern = strchr(line, '\t');
    wane_error error = {0};
    bool found;
    if (pattern == NULL)
        return cli_fail(EXIT_FAILED, "%s, line %d: it is no question; a tab and a pattern must follow it",
                        path, number + 1);
    *pattern++ = '\0';
    if (wane_text_finds(pattern, "", 0, 0, &found, &error) != WANE_OK) return cli_fail_wane(&error);
    char *prompt = text_format("%s%s", line, (unsigned char)line[0] < 0x80 ? " Answer in a few words." : "");
    add_item(bench, set, number, 0, prompt, pattern);
    free(prompt);
    return EXIT_FINE;
}

/* The lines of a file, or the first so many of them in the seed's order. */
static int add_set(struct governor_bench *bench, int set, const char *path) {
    int count = 0, items = setting_int(bench->settings, SET_ITEMS), code = EXIT_FINE;
    char **line = lines_read(path, &count);
    if (line == NULL) return EXIT_FAILED;
    if (count == 0) code = EXIT_FAILED;
    int *order = text_alloc((size_t)(count + 1) * sizeof *order);
    for (int i = 0; i < count; i++) {
        int at = (int)(mix(bench->seed + mix((uint64_t)set) + (uint64_t)i) % (uint64_t)(i + 1));
        order[i] = order[at];
        order[at] = i;
    }
    for (int i = 0; i < count && (items == 0 || i < items) && code == EXIT_FINE; i++)
        code = add_line(bench, path, set, order[i], line[order[i]]);
    if (set == GOVERNOR_TEXT) bench->groups = count;
    free(order);
    lines_free(line, count);
    return code;
}

static int add_shipped(struct governor_bench *bench, int set, int setting, const char *name) {
    const char *path = setting_text(bench->settings, setting);
    char found[4096];
    if (path != NULL && strcmp(path, "none") == 0) return EXIT_FINE;
    if (path == NULL && !wane_shipped_file(name, found, sizeof found))
        return cli_fail(EXIT_FAILED, "%s is not among wane's shared files", name);
    return add_set(bench, set, path != NULL ? path : found);
}

int governor_items(struct governor_bench *bench) {
    const char *tasks = setting_text(bench->settings, SET_TASKS);
    bench->judge = setting_text(bench->settings, SET_JUDGE);
    if ((tasks == NULL) != (bench->judge == NULL))
        return cli_usage("bench",
                         "--tasks and --judge belong together: what is asked, and a command that says "
                         "whether a reply is right");
    int code = add_shipped(bench, GOVERNOR_TEXT, SET_PROMPTS, "governor/prompts.txt");
    if (code == EXIT_FINE)
        code = add_shipped(bench, GOVERNOR_QUESTIONS, SET_QUESTIONS, "governor/questions.tsv");
    if (code == EXIT_FINE && tasks != NULL) code = add_set(bench, GOVERNOR_TASKS, tasks);
    if (code == EXIT_FINE && bench->count == 0)
        code =
            cli_usage("bench",
                      "there is nothing to ask: --prompts and --questions are none, and there are no tasks");
    return code;
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

static int read_streams(struct governor_bench *bench) {
    const char *text = setting_text(bench->settings, SET_STREAMS);
    char *end;
    bool given = bench->settings->value[SET_STREAMS].source != FROM_DEFAULT;
    long number = given ? strtol(text, &end, 10) : 4;
    if (given && (end == text || *end != '\0' || number < 1 || number > 64))
        return cli_usage("bench", "--streams is \"%.60s\"; bench governor takes a number from 1 to 64", text);
    bench->streams = (int)number;
    return EXIT_FINE;
}

/* Profile and rules; a governor that is off is not to be measured as one that is on. */
static int dress(struct governor_bench *bench, wane_model *model) {
    wane_governor_state state;
    wane_error error = {0};
    bool governs = false;
    for (int s = 0; s < GOVERNOR_SIDES; s++) governs = governs || bench->side[s].quality.governor;
    int code = rules_attach(bench->settings, model, 1u << WANE_MODE_WANE);
    if (code == EXIT_FINE) code = profiles_attach(bench->settings, model, &bench->domains, NULL, NULL);
    bool own = false; /* by the model's own profile */
    for (int s = 0; s < GOVERNOR_SIDES; s++) {
        struct governor_side *side = &bench->side[s];
        for (size_t i = 0; i < bench->domains.count; i++)
            if (side->name == bench->domains.list[i].name)
                side->quality.profile = bench->domains.quality[i].profile;
        own = own || (side->quality.governor && side->quality.profile == 0);
    }
    if (code != EXIT_FINE || !governs) return code;
    if (own && wane_model_set_profile(model, setting_text(bench->settings, SET_PROFILE), &error) != WANE_OK)
        return cli_fail_wane(&error);
    wane_model_get_governor_state(model, &state);
    if (state.on) return EXIT_FINE;
    return cli_fail(EXIT_FAILED,
                    "the profile %s says that the model shows no signal: its governor would stay off",
                    state.path);
}

static int with_model(struct governor_bench *bench) {
    wane_model *model = NULL;
    struct model_wish wish = {.sequences = bench->streams, .decodes = true, .drafts = true};
    int code = model_open(bench->settings, &wish, &model);
    if (code == EXIT_FINE) code = dress(bench, model);
    if (code == EXIT_FINE) {
        bench->model = text_copy(wane_model_get_facts(model)->name);
        code = governor_run(bench, model, setting_text(bench->settings, SET_RESULT));
    }
    wane_model_free(model);
    return code == EXIT_FINE ? governor_report(bench) : code;
}

int bench_governor(const struct settings *settings) {
    struct governor_bench bench = {.settings = settings,
                                   .replies = setting_int(settings, SET_REPLIES),
                                   .temperature = settings->value[SET_BENCH_TEMPERATURE].real,
                                   .seed = (uint64_t)setting_int(settings, SET_BENCH_SEED)};
    char *sides = text_copy(setting_text(settings, SET_SIDES));
    domains_from(settings, &bench.domains);
    int code = read_sides(&bench, sides);
    if (code == EXIT_FINE) code = read_streams(&bench);
    if (code == EXIT_FINE) code = governor_items(&bench);
    interrupt_catch();
    if (code == EXIT_FINE) code = with_model(&bench);
    for (int i = 0; i < bench.count; i++) {
        struct governor_item *item = &bench.item[i];
        free(item->name);
        free(item->prompt);
        free(item->wanted);
        for (int s = 0; s < GOVERNOR_SIDES; s++) free(item->reply[s].text);
    }
    free(bench.item);
    free(bench.model);
    free(sides);
    domains_free(&bench.domains);
    return code;
}
