/* bench_governor_report.c - what two sides' replies say: figures, differences by prompt, by reply and by item, with intervals. */
#include "bench_governor.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum { MEASURES = WANE_GRAMS + 1 };

/* One figure of both sides. */
struct row {
    wane_interval side[GOVERNOR_SIDES], difference;
};

struct report {
    int prompts, replies;
    struct row diversity[MEASURES];
    int pairs[1 + GOVERNOR_SETS]; /* loops of all sets; then right answers of each */
    struct row share[1 + GOVERNOR_SETS];
    uint64_t better[1 + GOVERNOR_SETS], worse[1 + GOVERNOR_SETS]; /* right, or looping, on one side only */
};

static const char *const measure_names[MEASURES] = {"distinct-1", "distinct-2", "distinct-3", "self-BLEU"};
static const char *const share_names[1 + GOVERNOR_SETS] = {"loops", "text", "questions", "tasks"};

static bool both(const struct governor_item *item) {
    return item->reply[0].done && item->reply[1].done;
}

/* One prompt's figures on both sides; false: not all its replies are there. */
static bool measure_prompt(const struct governor_bench *bench, int group,
                           double out[GOVERNOR_SIDES][MEASURES]) {
    const char **texts = text_alloc((size_t)bench->replies * sizeof *texts);
    bool fine = true;
    for (int s = 0; s < GOVERNOR_SIDES && fine; s++) {
        size_t count = 0;
        for (int i = 0; i < bench->count; i++)
            if (bench->item[i].set == GOVERNOR_TEXT && bench->item[i].group == group && both(&bench->item[i]))
                texts[count++] = bench->item[i].reply[s].text;
        wane_diversity d;
        fine = count == (size_t)bench->replies && wane_diversity_of(texts, count, &d, NULL) == WANE_OK;
        for (int n = 0; n < WANE_GRAMS && fine; n++) out[s][n] = d.distinct[n];
        if (fine) out[s][WANE_GRAMS] = d.self_bleu;
    }
    free(texts);
    return fine;
}

static void measure_diversity(const struct governor_bench *bench, struct report *r) {
    double(*values)[GOVERNOR_SIDES][MEASURES] = text_alloc((size_t)(bench->groups + 1) * sizeof *values);
    double *list = text_alloc((size_t)(bench->groups + 1) * sizeof *list);
    for (int g = 0; g < bench->groups; g++)
        if (measure_prompt(bench, g, values[r->prompts])) r->prompts++;
    r->replies = r->prompts * bench->replies;
    for (int m = 0; m < MEASURES; m++) {
        for (int s = 0; s <= GOVERNOR_SIDES; s++) {
            size_t count = 0;
            for (int p = 0; p < r->prompts; p++) {
                double gap = values[p][1][m] - values[p][0][m];
                if (gap == gap)
                    list[count++] = s < GOVERNOR_SIDES ? values[p][s][m] : gap; /* NAN: no words */
            }
            wane_mean_interval(list, count, 1,
                               s < GOVERNOR_SIDES ? &r->diversity[m].side[s] : &r->diversity[m].difference,
                               NULL);
        }
    }
    free(list);
    free(values);
}

/* A share over the items of a set that both sides have answered; `set` -1: loops, in all sets. */
static void measure_share(const struct governor_bench *bench, int set, struct report *r) {
    double *gap = text_alloc((size_t)(bench->count + 1) * sizeof *gap);
    uint64_t hits[GOVERNOR_SIDES] = {0}, count = 0;
    int at = set + 1;
    for (int i = 0; i < bench->count; i++) {
        const struct governor_item *item = &bench->item[i];
        if (!both(item) || (set >= 0 && item->set != set)) continue;
        bool is[GOVERNOR_SIDES];
        for (int s = 0; s < GOVERNOR_SIDES; s++) {
            is[s] = set < 0 ? item->reply[s].loops : item->reply[s].right;
            hits[s] += is[s];
        }
        gap[count++] = (double)is[1] - (double)is[0];
        r->better[at] += is[1] && !is[0];
        r->worse[at] += is[0] && !is[1];
    }
    r->pairs[at] = (int)count;
    for (int s = 0; s < GOVERNOR_SIDES; s++) r->share[at].side[s] = wane_share_interval(hits[s], count);
    wane_mean_interval(gap, (size_t)count, 1, &r->share[at].difference, NULL);
    free(gap);
}

/* ---- output -------------------------------------------------------------------------------------------------------- */

static json_t *interval_json(const wane_interval *i) {
    return json_pack("{s:o, s:o, s:o}", "value", json_known(i->value), "low", json_known(i->low), "high",
                     json_known(i->high));
}

static json_t *row_json(const struct governor_bench *bench, const struct row *row) {
    json_t *object = json_object();
    for (int s = 0; s < GOVERNOR_SIDES; s++)
        json_object_set_new(object, bench->side[s].name, interval_json(&row->side[s]));
    json_object_set_new(object, "difference", interval_json(&row->difference));
    return object;
}

static void print_json(const struct governor_bench *bench, const struct report *r) {
    json_t *all =
        json_pack("{s:s, s:s, s:s, s:s, s:f, s:I, s:[s, s]}", "bench", "governor", "wane", wane_version(),
                  "engine", wane_engine_version(), "model", bench->model, "temperature", bench->temperature,
                  "seed", (json_int_t)bench->seed, "sides", bench->side[0].name, bench->side[1].name);
    json_t *diversity = json_pack("{s:i, s:i}", "prompts", r->prompts, "replies", r->replies);
    for (int m = 0; m < MEASURES; m++)
        json_object_set_new(diversity, measure_names[m], row_json(bench, &r->diversity[m]));
    json_object_set_new(all, "diversity", diversity);
    for (int i = 0; i <= GOVERNOR_SETS; i++) {
        if (i == 1 || r->pairs[i] == 0) continue; /* a text is neither right nor wrong */
        json_t *row = row_json(bench, &r->share[i]);
        json_object_set_new(row, "items", json_integer(r->pairs[i]));
        json_object_set_new(row, "p", json_known(wane_mcnemar(r->better[i], r->worse[i])));
        json_object_set_new(all, share_names[i], row);
    }
    out_json(all, false);
}

/* Figures times `scale`, with so many digits. */
static void print_row(const char *name, const struct row *row, double scale, int digits) {
    const wane_interval *a = &row->side[0], *b = &row->side[1], *d = &row->difference;
    out_format("%-22s %8.*f  %8.*f  %+9.*f  (%+.*f to %+.*f)", name, digits, scale * a->value, digits,
               scale * b->value, digits, scale * d->value, digits, scale * d->low, digits, scale * d->high);
}

static void print_text(const struct governor_bench *bench, const struct report *r) {
    static const char *const labels[1 + GOVERNOR_SETS] = {"loops in 1,000", "", "questions right, %",
                                                          "tasks right, %"};
    out_format("%s, temperature %g, seed %llu\n\n%-22s %8s  %8s  difference, 95 %%\n", bench->model,
               bench->temperature, (unsigned long long)bench->seed, "", bench->side[0].name,
               bench->side[1].name);
    for (int m = 0; m < MEASURES && r->prompts > 0; m++) {
        print_row(measure_names[m], &r->diversity[m], 1, 3);
        out_format("\n");
    }
    for (int i = 0; i <= GOVERNOR_SETS; i++) {
        if (i == 1 || r->pairs[i] == 0) continue;
        print_row(labels[i], &r->share[i], i == 0 ? 1000 : 100, 1);
        out_format("  %d pairs, p %.3f\n", r->pairs[i], wane_mcnemar(r->better[i], r->worse[i]));
    }
    if (r->prompts > 0)
        out_format("\n%d prompts with %d replies of each side; p: McNemar's\n", r->prompts, r->replies);
}

int governor_report(const struct governor_bench *bench) {
    struct report r = {0};
    measure_diversity(bench, &r);
    for (int set = -1; set < GOVERNOR_SETS; set++) measure_share(bench, set, &r);
    if (setting_on(bench->settings, SET_JSON))
        print_json(bench, &r);
    else
        print_text(bench, &r);
    return EXIT_FINE;
}
