/* cmd_domains.c - `wane classify`: which domain a text is of; and `wane train domains`, which makes the classifier. */
#include "cli.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- classify ------------------------------------------------------------------------------------------------------ */

static void print_classification(const wane_classification *c, bool as_json) {
    if (as_json) {
        json_t *all = json_object();
        for (int i = 0; i < c->count; i++)
            json_object_set_new(all, c->all[i].domain, json_real(c->all[i].share));
        out_json(json_pack("{s:s, s:s, s:f, s:f, s:o}", "domain", c->domain, "likely", c->likely, "share",
                           c->share, "threshold", c->threshold, "shares", all),
                 false);
        return;
    }
    out_format("%s\n\n", c->domain);
    for (int i = 0; i < c->count; i++)
        out_format("%-10s %.3f%s\n", c->all[i].domain, c->all[i].share,
                   strcmp(c->all[i].domain, c->domain) == 0 ? "  <-" : "");
    if (strcmp(c->domain, "none") == 0)
        out_format("\nnone: the best one, %s, is below the threshold of %.2f\n", c->likely, c->threshold);
}

int command_classify(struct settings *settings) {
    if (settings->operand_count > 1)
        return cli_usage("classify", "wane classify takes one file, or standard input; got \"%.60s\" as well",
                         settings->operands[1]);
    const char *path = settings->operand_count == 1 ? settings->operands[0] : "-";
    wane_classifier *classifier = NULL;
    wane_classification c;
    wane_error error = {0};
    size_t size = 0;
    interrupt_catch();
    char *text = strcmp(path, "-") == 0 ? read_all_input(&size) : read_all_file(path, &size);
    if (text == NULL) return interrupt_seen() ? EXIT_INTERRUPTED : EXIT_FAILED;
    int status = wane_classifier_open(setting_text(settings, SET_CLASSIFIER), &classifier, &error);
    if (status == WANE_OK) status = wane_classify(classifier, text, size, &c, &error);
    if (status == WANE_OK) print_classification(&c, setting_on(settings, SET_JSON));
    wane_classifier_free(classifier);
    free(text);
    return status == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
}

/* ---- train domains ------------------------------------------------------------------------------------------------- */

static json_t *share_json(const wane_share *s) {
    return json_pack("{s:I, s:I, s:o, s:o}", "right", (json_int_t)s->right, "all", (json_int_t)s->all, "low",
                     json_known(s->low), "high", json_known(s->high));
}

static void print_share(const char *what, const wane_share *s) {
    if (s->all == 0) return;
    out_format("%-22s %4llu of %4llu  %5.1f %%  (95 %%: %.1f to %.1f)\n", what, (unsigned long long)s->right,
               (unsigned long long)s->all, 100 * (double)s->right / (double)s->all, 100 * s->low,
               100 * s->high);
}

static json_t *report_json(const void *report, const char *output) {
    const wane_domains_report *r = report;
    json_t *languages = json_object(), *confusion = json_object();
    for (int i = 0; i < r->languages; i++)
        json_object_set_new(languages, r->language[i], share_json(&r->by_language[i]));
    for (int i = 0; i <= r->domains && r->held_texts > 0; i++) {
        json_t *row = json_object();
        for (int j = 0; j <= r->domains; j++)
            json_object_set_new(row, r->domain[j], json_integer((json_int_t)r->confusion[i][j]));
        json_object_set_new(confusion, r->domain[i], row);
    }
    return json_pack("{s:s?, s:I, s:I, s:f, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "file", output, "texts",
                     (json_int_t)r->texts, "test_texts", (json_int_t)r->held_texts, "threshold", r->threshold,
                     "bytes", (json_int_t)r->bytes, "accuracy", share_json(&r->all), "of_domains",
                     share_json(&r->of_domains), "when_sure", share_json(&r->taken), "languages", languages,
                     "confusion", confusion, "seconds", json_ms(r->seconds));
}

static void print_confusion(const wane_domains_report *r) {
    out_format("\n%-12s", "is / taken as");
    for (int j = 0; j <= r->domains; j++) out_format(" %9s", r->domain[j]);
    out_format("\n");
    for (int i = 0; i <= r->domains; i++) {
        out_format("%-13s", r->domain[i]);
        for (int j = 0; j <= r->domains; j++) out_format(" %9llu", (unsigned long long)r->confusion[i][j]);
        out_format("\n");
    }
}

static void print_report(const void *report, const char *output) {
    const wane_domains_report *r = report;
    out_format("texts      %llu, of", (unsigned long long)r->texts);
    for (int i = 0; i < r->domains; i++) out_format("%s %s", i > 0 ? "," : "", r->domain[i]);
    out_format(", and none\nthreshold  %.2f: below it, none\n", r->threshold);
    if (output != NULL) out_format("file       %s, %.1f KB\n", output, (double)r->bytes / 1e3);
    if (r->held_texts == 0) return;
    out_format("\non %llu texts that were not learned:\n", (unsigned long long)r->held_texts);
    print_share("right", &r->all);
    print_share("right, of the domains", &r->of_domains);
    print_share("right, when sure", &r->taken);
    for (int i = 0; i < r->languages; i++) {
        char name[40];
        snprintf(name, sizeof name, "right, %s", r->language[i]);
        print_share(name, &r->by_language[i]);
    }
    print_confusion(r);
}

int train_domains(const struct settings *settings) {
    const struct setting_value *data = &settings->value[SET_DOMAIN_DATA];
    if (data->list_count == 0)
        return cli_usage("train", "wane train domains needs --data FILE, texts and their domains");
    wane_domains_train_options options;
    wane_domains_report report;
    wane_error error = {0};
    wane_domains_train_options_init(&options);
    options.data = (const char *const *)data->list;
    options.data_count = data->list_count;
    options.held_out = setting_text(settings, SET_DOMAIN_TEST);
    train_begin(settings, &options.output, &options.seed, &options.progress);
    int result = wane_domains_train(&options, &report, &error);
    return train_end(settings, result, &error, &report, report_json, print_report);
}
