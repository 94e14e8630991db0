/*
 * protocol.c - figures of an acceptance run, limits, and intervals. Pure but for memory. Refuses to give an interval that has not been
 * drawn, and to call a difference real that the spread of either run could make.
 */
#include "protocol.h"

#include "json_of.h"
#include "sorted.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const figure_names[PROTOCOL_FIGURES] = {
    "ttft_p50_ms",  "ttft_p90_ms",       "ttft_p99_ms",         "tpot_p50_ms",     "tpot_p90_ms",
    "tpot_p99_ms",  "tokens_per_second", "requests_per_second", "cpu_share",       "slot_share",
    "engine_share", "long_tpot_p50_ms",  "long_tpot_p90_ms",    "long_tpot_p99_ms"};

const char *protocol_figure_name(int figure) {
    return figure_names[figure];
}

static void three(const double *values, int count, double out[3]) {
    double *sorted = text_alloc(((size_t)count + 1) * sizeof *sorted);
    if (count > 0) memcpy(sorted, values, (size_t)count * sizeof *sorted);
    sort_numbers(sorted, (size_t)count);
    static const double shares[3] = {0.5, 0.9, 0.99};
    for (int i = 0; i < 3; i++)
        out[i] = count > 0 ? sorted_quantile(sorted, (size_t)count, shares[i]) : (double)NAN;
    free(sorted);
}

void protocol_figures(const struct protocol_run *run, double out[PROTOCOL_FIGURES]) {
    size_t room = (size_t)run->count + 1;
    double *ttft = text_alloc(room * sizeof *ttft), *tpot = text_alloc(room * sizeof *tpot), tokens = 0,
           whole = 0;
    int done = 0, several = 0;
    for (int i = 0; i < run->count; i++) {
        const struct protocol_sample *s = &run->sample[i];
        if (!s->done) continue;
        ttft[done++] = s->ttft_ms;
        if (s->tokens > 1) tpot[several++] = s->tpot_ms;
        tokens += s->tokens;
        whole += s->whole_ms;
    }
    three(ttft, done, out + TTFT_P50);
    three(tpot, several, out + TPOT_P50);
    three(run->gap_ms, run->gap_ms != NULL ? run->gaps : 0, out + LONG_TPOT_P50);
    bool timed = run->seconds > 0;
    out[TOKENS_PER_SECOND] = timed ? tokens / run->seconds : NAN;
    out[REQUESTS_PER_SECOND] = timed ? done / run->seconds : NAN;
    out[CPU_SHARE] = timed && run->cpus > 0 ? run->cpu_seconds / run->seconds / run->cpus : NAN;
    out[SLOT_SHARE] = timed && run->streams > 0 ? 1e-3 * whole / run->seconds / run->streams : NAN;
    out[ENGINE_SHARE] = timed ? run->engine_seconds / run->seconds : NAN;
    free(ttft);
    free(tpot);
}

/* ---- a stopped run ------------------------------------------------------------------------------------------------------ */

static bool refuse(char why[300], const char *format, const char *what) {
    snprintf(why, 300, format, what);
    return false;
}

char *protocol_state_line(const struct protocol_run *run, int number, int leg, double seconds,
                          double cpu_seconds, double engine_seconds) {
    const struct protocol_sample *s = &run->sample[number];
    return text_format("{\"n\":%d,\"leg\":%d,\"ttft_ms\":%.6f,\"tpot_ms\":%.6f,\"whole_ms\":%.6f,\"tokens\":%"
                       "d,\"seconds\":%.6f,"
                       "\"cpu_seconds\":%.6f,\"engine_seconds\":%.6f}\n",
                       number, leg, s->ttft_ms, s->tpot_ms, s->whole_ms, s->tokens, seconds, cpu_seconds,
                       engine_seconds);
}

/* The head says the same; else which of its fields does not. */
static bool same_head(const json_t *head, const json_t *found, char why[300]) {
    const char *key;
    const json_t *value;
    if (json_equal(head, found)) return true;
    json_object_foreach((json_t *)(uintptr_t)head, key, value) {
        if (!json_equal(value, json_object_get(found, key)))
            return refuse(why, "it was begun with another \"%.60s\"; give the same settings, or remove it",
                          key);
    }
    return refuse(why, "it is no state of this bench%s", "");
}

/* One request's line, into the run; false: it is not one. `last` has the sums of the leg so far. */
static bool take_line(struct protocol_run *run, const json_t *line, int *leg, double last[3]) {
    static const char *const sums[3] = {"seconds", "cpu_seconds", "engine_seconds"};
    double n = json_number_of(line, "n"), tokens = json_number_of(line, "tokens"),
           legs = json_number_of(line, "leg");
    struct protocol_sample s = {.ttft_ms = json_number_of(line, "ttft_ms"),
                                .tpot_ms = json_number_of(line, "tpot_ms"),
                                .whole_ms = json_number_of(line, "whole_ms"),
                                .done = true};
    bool fine = n >= 0 && n < run->count && tokens >= 0 && tokens < 1e9 && legs >= *leg && legs < 1e6 &&
                s.ttft_ms >= 0 && s.tpot_ms >= 0 && s.whole_ms >= 0;
    if (!fine) return false;
    double now[3];
    for (int i = 0; i < 3; i++) {
        now[i] = json_number_of(line, sums[i]);
        if (!(now[i] >= 0)) return false;
    }
    bool next = (int)legs > *leg;
    double *const total[3] = {&run->seconds, &run->cpu_seconds, &run->engine_seconds};
    for (int i = 0; i < 3; i++) {
        double before = next ? 0 : last[i];
        if (now[i] > before)
            *total[i] += now[i] - before; /* lines of one leg may come a moment out of order */
        last[i] = fmax(now[i], before);
    }
    *leg = (int)legs;
    s.tokens = (int)tokens;
    if (!run->sample[(int)n].done) run->done++;
    run->sample[(int)n] = s;
    return true;
}

bool protocol_read_state(struct protocol_run *run, const json_t *head, const char *text, size_t text_size,
                         size_t *size, char why[300]) {
    const char *at = text, *end = text + text_size;
    double last[3] = {0, 0, 0};
    int leg = 0;
    *size = 0;
    for (bool first = true; at < end; first = false) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        json_t *line = line_end != NULL ? json_loadb(at, (size_t)(line_end - at), 0, NULL) : NULL;
        if (line_end == NULL && !first) break; /* cut while it was written */
        bool fine = line != NULL && (first ? same_head(head, line, why) : take_line(run, line, &leg, last));
        bool known = line != NULL;
        json_decref(line);
        if (first && !known) return refuse(why, "it is no state of this bench%s", "");
        if (first && !fine) return false;
        if (!fine) break;
        at = line_end + 1;
        *size = (size_t)(at - text);
    }
    return true;
}

int protocol_legs(const char *text, size_t size) {
    int most = 0;
    for (const char *at = text, *end = text + size; at < end;) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (line_end == NULL) break;
        json_t *line = json_loadb(at, (size_t)(line_end - at), 0, NULL);
        double leg = json_number_of(line, "leg");
        if (leg > most && leg < 1e6) most = (int)leg;
        json_decref(line);
        at = line_end + 1;
    }
    return most;
}

/* ---- the bar ------------------------------------------------------------------------------------------------------------- */

static int figure_of(const char *name) {
    for (int i = 0; i < PROTOCOL_FIGURES; i++)
        if (strcmp(figure_names[i], name) == 0) return i;
    return -1;
}

static bool read_limit(struct protocol_bar *bar, const char *name, const json_t *value, char why[300]) {
    int figure = figure_of(name);
    if (figure < 0)
        return refuse(why, "there is no figure \"%.60s\"; docs/protocol.md has their names", name);
    struct protocol_limit limit = {.figure = figure};
    double least = json_number_of(value, "at_least"), most = json_number_of(value, "at_most");
    if (json_is_number(value)) {
        limit.limit = json_number_value(value);
        limit.at_least = figure == TOKENS_PER_SECOND || figure == REQUESTS_PER_SECOND;
    } else if (!isnan(least) || !isnan(most)) {
        limit.at_least = !isnan(least);
        limit.limit = limit.at_least ? least : most;
    } else {
        return refuse(why,
                      "the limit of \"%.60s\" is neither a number nor {\"at_most\": N} or {\"at_least\": N}",
                      name);
    }
    if (bar->count == PROTOCOL_BARS_MOST) return refuse(why, "it has too many limits%s", "");
    bar->list[bar->count++] = limit;
    /* Both ends of one figure. */
    if (limit.at_least && !isnan(most) && bar->count < PROTOCOL_BARS_MOST)
        bar->list[bar->count++] = (struct protocol_limit){.figure = figure, .limit = most};
    return true;
}

bool protocol_read_bar(struct protocol_bar *bar, const json_t *json, char why[300]) {
    const char *name;
    json_t *value;
    bar->count = 0;
    if (!json_is_object(json) || json_object_size(json) == 0)
        return refuse(why, "it is no JSON object with a limit in it%s", "");
    json_object_foreach((json_t *)(uintptr_t)json, name,
                        value) if (!read_limit(bar, name, value, why)) return false;
    return true;
}

bool protocol_keeps(const struct protocol_limit *limit, const double figures[PROTOCOL_FIGURES]) {
    double value = figures[limit->figure];
    return limit->at_least ? value >= limit->limit : value <= limit->limit;
}

/* ---- two results ----------------------------------------------------------------------------------------------------------- */

void protocol_series_free(struct protocol_series *series) {
    free(series->ttft_ms);
    free(series->tpot_ms);
    *series = (struct protocol_series){0};
}

/* `count` numbers of a list, none negative; NULL: it is no such list. */
static double *numbers_of(const json_t *list, size_t count) {
    if (!json_is_array(list) || json_array_size(list) != count) return NULL;
    double *out = text_alloc(count * sizeof *out);
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_array_get(list, i);
        out[i] = json_is_number(one) ? json_number_value(one) : -1;
        if (out[i] >= 0 && isfinite(out[i])) continue;
        free(out);
        return NULL;
    }
    return out;
}

bool protocol_read_series(struct protocol_series *series, const json_t *result, char why[300]) {
    const char *bench = json_string_value(json_object_get(result, "bench"));
    const json_t *samples = json_object_get(result, "samples"), *ttft = json_object_get(samples, "ttft_ms");
    size_t count = json_array_size(ttft);
    *series = (struct protocol_series){0};
    if (bench == NULL || strcmp(bench, "protocol") != 0)
        return refuse(why, "it is no result of wane bench protocol%s", "");
    if (count < 2 || count > PROTOCOL_SAMPLES_MOST)
        return refuse(why, "it has fewer than two requests, or too many%s", "");
    series->ttft_ms = numbers_of(ttft, count);
    series->tpot_ms = numbers_of(json_object_get(samples, "tpot_ms"), count);
    series->count = (int)count;
    if (series->ttft_ms != NULL && series->tpot_ms != NULL) return true;
    protocol_series_free(series);
    return refuse(why, "its samples are not two lists of numbers of one length%s", "");
}

/* SplitMix64: good enough to choose blocks, and the same everywhere. */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

enum { STATISTICS = 4 }; /* p50, p90, p99, mean */

struct resampling {
    const double *value;
    int count, block;
    int *rank; /* of each value among all, ascending */
    double *sorted;
    int *seen; /* by rank: times drawn */
};

struct ranked {
    double value;
    int at;
};

static int by_value(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    return x->value < y->value ? -1 : x->value > y->value ? 1 : x->at - y->at;
}

static void resampling_open(struct resampling *r, const double *value, int count) {
    size_t n = (size_t)count;
    struct ranked *order = text_alloc(n * sizeof *order);
    *r = (struct resampling){.value = value,
                             .count = count,
                             .block = (int)fmax(1, round(cbrt(count))),
                             .rank = text_alloc(n * sizeof *r->rank),
                             .sorted = text_alloc(n * sizeof *r->sorted),
                             .seen = text_alloc(n * sizeof *r->seen)};
    for (int i = 0; i < count; i++) order[i] = (struct ranked){value[i], i};
    qsort(order, n, sizeof *order, by_value);
    for (int i = 0; i < count; i++) {
        r->rank[order[i].at] = i;
        r->sorted[i] = order[i].value;
    }
    free(order);
}

static void resampling_close(struct resampling *r) {
    free(r->rank);
    free(r->sorted);
    free(r->seen);
}

static void statistics(const double *sorted, const int *seen, int count, double out[STATISTICS]) {
    static const double shares[3] = {0.5, 0.9, 0.99};
    double sum = 0;
    int below = 0, next = 0;
    out[0] = out[1] = out[2] = NAN; /* of nothing */
    for (int i = 0; i < count; i++) {
        int times = seen != NULL ? seen[i] : 1;
        below += times;
        sum += times * sorted[i];
        while (next < 3 && times > 0 && below >= (int)ceil(shares[next] * count)) out[next++] = sorted[i];
    }
    out[3] = sum / count;
}

/* Blocks of consecutive values, as many as there were values. */
static void resample(struct resampling *r, uint64_t *random, double out[STATISTICS]) {
    memset(r->seen, 0, (size_t)r->count * sizeof *r->seen);
    for (int drawn = 0; drawn < r->count;) {
        int from = (int)(next_random(random) % (uint64_t)(r->count - r->block + 1));
        for (int i = 0; i < r->block && drawn < r->count; i++, drawn++) r->seen[r->rank[from + i]]++;
    }
    statistics(r->sorted, r->seen, r->count, out);
}

static void interval(double *values, double *low, double *high) {
    sort_numbers(values, PROTOCOL_DRAWS);
    *low = sorted_quantile(values, PROTOCOL_DRAWS, 0.025);
    *high = sorted_quantile(values, PROTOCOL_DRAWS, 0.975);
}

static void compare_one(const char *what, const double *a, int a_count, const double *b, int b_count,
                        uint64_t seed, struct protocol_difference out[STATISTICS]) {
    static const char *const names[STATISTICS] = {"p50", "p90", "p99", "mean"};
    struct resampling x, y;
    double here[STATISTICS], there[STATISTICS];
    double *difference = text_alloc(2 * STATISTICS * PROTOCOL_DRAWS * sizeof *difference);
    double *ratio = difference + STATISTICS * PROTOCOL_DRAWS;
    resampling_open(&x, a, a_count);
    resampling_open(&y, b, b_count);
    for (int k = 0; k < PROTOCOL_DRAWS; k++) {
        resample(&x, &seed, here);
        resample(&y, &seed, there);
        for (int i = 0; i < STATISTICS; i++) {
            difference[i * PROTOCOL_DRAWS + k] = there[i] - here[i];
            ratio[i * PROTOCOL_DRAWS + k] = here[i] > 0 ? there[i] / here[i] : 1;
        }
    }
    statistics(x.sorted, NULL, a_count, here);
    statistics(y.sorted, NULL, b_count, there);
    for (int i = 0; i < STATISTICS; i++) {
        struct protocol_difference *d = &out[i];
        *d = (struct protocol_difference){.a = here[i],
                                          .b = there[i],
                                          .difference = there[i] - here[i],
                                          .ratio = here[i] > 0 ? there[i] / here[i] : 1};
        snprintf(d->name, sizeof d->name, "%s_%s_ms", what, names[i]);
        interval(difference + i * PROTOCOL_DRAWS, &d->low, &d->high);
        interval(ratio + i * PROTOCOL_DRAWS, &d->ratio_low, &d->ratio_high);
        d->real = d->low > 0 || d->high < 0;
    }
    resampling_close(&x);
    resampling_close(&y);
    free(difference);
}

void protocol_compare(const struct protocol_series *a, const struct protocol_series *b,
                      struct protocol_difference out[PROTOCOL_DIFFERENCES]) {
    compare_one("ttft", a->ttft_ms, a->count, b->ttft_ms, b->count, 1, out);
    compare_one("tpot", a->tpot_ms, a->count, b->tpot_ms, b->count, 2, out + STATISTICS);
}
