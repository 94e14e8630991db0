/*
 * table_report.c - what a table's build found, for people and for programs. docs/table.md explains every number.
 */
#include "table_build.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[WANE_TABLE_KINDS] = {"single", "multi", "code", "summary"};

double report_percent(uint64_t part, uint64_t whole) {
    return whole > 0 ? 100 * (double)part / (double)whole : 0;
}

wane_table_hits report_total(const wane_table_report *report) {
    wane_table_hits all = {0};
    for (int kind = 0; kind < WANE_TABLE_KINDS; kind++) {
        all.records += report->hits[kind].records;
        all.window += report->hits[kind].window;
        all.right += report->hits[kind].right;
        all.rank += report->hits[kind].rank;
        all.strict += report->hits[kind].strict;
    }
    return all;
}

/* -------------------------------------------------------------------- JSON */

static json_t *number(uint64_t value) {
    return json_integer((json_int_t)value);
}

static json_t *hits_json(const wane_table_hits *hits) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "records", number(hits->records), "window",
                     number(hits->window), "right", number(hits->right), "rank", number(hits->rank), "strict",
                     number(hits->strict));
}

static void token_text(const wane_model *model, int32_t token, char **text, size_t *size) {
    char bytes[256];
    int got = wane_token_bytes(model, token, true, bytes, sizeof bytes);
    *text = text_grow(*text, *size + (size_t)(got > 0 ? got : 0) + 1);
    if (got > 0) memcpy(*text + *size, bytes, (size_t)got);
    *size += got > 0 ? (size_t)got : 0;
}

static json_t *tokens_text(const wane_model *model, const int32_t *token, int count) {
    char *text = NULL;
    size_t size = 0;
    for (int i = 0; i < count; i++) token_text(model, token[i], &text, &size);
    json_t *value = json_text(text != NULL ? text : "", size);
    free(text);
    return value;
}

static json_t *hottest_json(const wane_table_report *report, const wane_model *model) {
    json_t *list = json_array();
    for (int i = 0; i < report->hottest_count; i++) {
        const wane_table_hot *hot = &report->hottest[i];
        json_t *last = json_array();
        for (int k = 0; k < hot->last_count; k++) json_array_append_new(last, json_integer(hot->last[k]));
        json_t *one = json_pack("{s:o, s:i, s:o, s:o, s:f, s:b}", "last", last, "next", hot->next, "seen",
                                number(hot->seen), "next_seen", number(hot->next_seen), "stability",
                                (double)hot->stability, "in_table", hot->in_table);
        if (model != NULL) {
            json_object_set_new(one, "last_text", tokens_text(model, hot->last, hot->last_count));
            json_object_set_new(one, "next_text", tokens_text(model, &hot->next, 1));
        }
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *bands_json(const wane_table_report *report) {
    json_t *list = json_array();
    for (int i = 0; i < WANE_TABLE_BANDS; i++)
        json_array_append_new(list,
                              json_pack("{s:f, s:o, s:o}", "from", (double)wane_table_bands()[i], "contexts",
                                        number(report->band[i]), "records", number(report->band_records[i])));
    return list;
}

json_t *report_json(const wane_table_report *r, const wane_model *model) {
    json_t *kinds = json_object(), *hits = json_object();
    for (int kind = 0; kind < WANE_TABLE_KINDS; kind++) {
        json_object_set_new(kinds, kind_names[kind],
                            json_pack("{s:o, s:o}", "read", number(r->kinds[kind]), "used",
                                      number(r->used[kind])));
        json_object_set_new(hits, kind_names[kind], hits_json(&r->hits[kind]));
    }
    json_t *all =
        json_pack("{s:s, s:s, s:i, s:i, s:o, s:o, s:{s:o, s:o, s:o}, s:o}", "model", r->model, "tokenizer",
                  r->tokenizer, "vocab_size", r->vocab_size, "window", r->window, "records",
                  number(r->records), "kinds", kinds, "left_out", "changed", number(r->changed), "short",
                  number(r->too_short), "empty", number(r->empty), "cut_files", number(r->cut_files));
    json_t *found = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "contexts", number(r->contexts),
                              "once", number(r->once), "places", number(r->places), "same_hash",
                              number(r->same_hash), "other_best", number(r->other_best), "stable",
                              number(r->stable), "suited", number(r->suited), "stability", bands_json(r));
    json_t *table =
        json_pack("{s:o, s:o, s:o, s:o, s:o}", "entries", number(r->entries), "positions",
                  number(r->positions), "continuations", number(r->continuations), "continuation_tokens",
                  number(r->continuation_tokens), "bytes", number(r->bytes));
    json_object_update(all, found);
    json_object_update(all, table);
    json_decref(found);
    json_decref(table);
    json_object_set_new(all, "hits", hits);
    json_object_set_new(all, "phrases",
                        json_pack("{s:o, s:o, s:o}", "examples", number(r->phrase_examples), "held",
                                  number(r->phrase_held), "auc",
                                  isnan(r->phrase_auc) ? json_null() : json_real(r->phrase_auc)));
    json_object_set_new(all, "hottest", hottest_json(r, model));
    json_object_set_new(all, "spilled", number(r->spilled));
    json_object_set_new(all, "seconds", json_ms(r->seconds));
    return all;
}

/* -------------------------------------------------------------------- text */

static void print_read(const wane_table_report *r) {
    out_format("model          %s\ntokenizer      %s, %d tokens\n", r->model, r->tokenizer, r->vocab_size);
    out_format("records        %" PRIu64 "; left out: %" PRIu64 " changed by a correction, %" PRIu64
               " with fewer than %d tokens before them, %" PRIu64 " without candidates\n",
               r->records, r->changed, r->too_short, r->window, r->empty);
    if (r->cut_files > 0)
        out_format("cut            %" PRIu64 " traces end in the middle of a line\n", r->cut_files);
}

static void print_hits(const wane_table_report *r) {
    out_format("\nhad the table been built without the request that asks, in percent of its records:\n");
    out_format("%-8s %9s %9s %8s %8s %8s %8s\n", "kind", "read", "used", "window", "right", "rank", "strict");
    wane_table_hits total = report_total(r);
    uint64_t read = 0;
    for (int kind = 0; kind <= WANE_TABLE_KINDS; kind++) {
        bool last = kind == WANE_TABLE_KINDS;
        const wane_table_hits *h = last ? &total : &r->hits[kind];
        read += last ? 0 : r->kinds[kind];
        out_format("%-8s %9" PRIu64 " %9" PRIu64 " %8.2f %8.2f %8.2f %8.2f\n",
                   last ? "all" : kind_names[kind], last ? read : r->kinds[kind], h->records,
                   report_percent(h->window, h->records), report_percent(h->right, h->records),
                   report_percent(h->rank, h->records), report_percent(h->strict, h->records));
    }
}

static void print_stability(const wane_table_report *r) {
    out_format("\n%-10s %10s %10s   (contexts seen more than once)\n", "stability", "contexts", "records");
    for (int i = 0; i < WANE_TABLE_BANDS; i++)
        out_format("%-10g %10" PRIu64 " %10" PRIu64 "\n", (double)wane_table_bands()[i], r->band[i],
                   r->band_records[i]);
}

static void print_tokens(const wane_model *model, const int32_t *token, int count) {
    if (model != NULL) {
        json_t *text = tokens_text(model, token, count);
        char *quoted = json_dumps(text, JSON_ENCODE_ANY);
        out_format(" %s", quoted);
        free(quoted);
        json_decref(text);
        return;
    }
    for (int i = 0; i < count; i++) out_format(" %d", token[i]);
}

static void print_hottest(const wane_table_report *r, const wane_model *model) {
    if (r->hottest_count > 0)
        out_format("\n%9s %6s %10s   last tokens, and what mostly came\n", "seen", "then", "stability");
    for (int i = 0; i < r->hottest_count; i++) {
        const wane_table_hot *hot = &r->hottest[i];
        out_format("%9" PRIu32 " %4.0f %% %10.6f  ", hot->seen, report_percent(hot->next_seen, hot->seen),
                   (double)hot->stability);
        print_tokens(model, hot->last, hot->last_count);
        out_format(" :");
        print_tokens(model, &hot->next, 1);
        out_format("%s\n", hot->in_table ? "" : "  (not in the table)");
    }
}

void report_print(const wane_table_report *r, const wane_model *model) {
    print_read(r);
    out_format("contexts       %" PRIu64 ", %" PRIu64 " of them seen once; %" PRIu64 " whole contexts\n",
               r->contexts, r->once, r->places);
    uint64_t used = report_total(r).records;
    out_format("collisions     %" PRIu64 " records under another window's hash; %" PRIu64
               " (%.2f %%) with another best token than their context\n",
               r->same_hash, r->other_best, report_percent(r->other_best, used));
    out_format("stable         %" PRIu64 " contexts; %" PRIu64 " that could be entries\n", r->stable,
               r->suited);
    out_format("table          %" PRIu32 " entries, %" PRIu32 " positions, %" PRIu32
               " continuations of %" PRIu64 " tokens, %.2f MB\n",
               r->entries, r->positions, r->continuations, r->continuation_tokens, (double)r->bytes / 1e6);
    if (r->phrase_examples + r->phrase_held > 0) {
        out_format("phrases        learned from %" PRIu64 " places; AUC ", r->phrase_examples);
        if (isnan(r->phrase_auc))
            out_format("not known: those held back are too few\n");
        else
            out_format("%.3f on %" PRIu64 " that were held back\n", r->phrase_auc, r->phrase_held);
    }
    print_hits(r);
    print_stability(r);
    print_hottest(r, model);
}
