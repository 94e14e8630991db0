/*
 * domains.c - the classifier of domains as the public functions have it: opened, asked, trained from JSONL.
 *
 * Owns no texts. Refuses data that name no domain, more domains than there is room for, and lines that are not what they should be.
 */
#include "core/clock.h"
#include "core/error.h"
#include "core/figures.h"
#include "core/file.h"
#include "core/memory.h"
#include "governor/linear.h"
#include "shipped.h"
#include "wane.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BITS = 16, /* buckets of a classifier, 65,536: 393 KB with five domains and none */
    SEED_OF_TEXT = 1,
    DATA_MOST = 64 << 20,
    TEXTS_MOST = 1000000,
    NAME_MOST = WANE__LINEAR_NAME - 1
};
static const char none[] = "none";

struct wane_classifier {
    struct wane__linear *model;
};

/* ------------------------------------------------------------------- asking */

int wane_classifier_open(const char *path, wane_classifier **classifier, wane_error *error) {
    char shipped[4096];
    wane__clear(error);
    *classifier = NULL;
    if (path == NULL && !wane__shipped("domains/domains.linear", shipped, sizeof shipped))
        return wane__fail(error, WANE_ENOENT,
                          "The classifier that ships with wane, domains/domains.linear, is not there.");
    wane_classifier *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a classifier.");
    int status = wane__linear_read(path != NULL ? path : shipped, WANE__LINEAR_DOMAINS, &made->model, error);
    if (status == WANE_OK)
        *classifier = made;
    else
        wane__free(made);
    return status;
}

void wane_classifier_free(wane_classifier *classifier) {
    if (classifier == NULL) return;
    wane__linear_free(classifier->model);
    wane__free(classifier);
}

int wane_classify(const wane_classifier *classifier, const char *text, size_t size, wane_classification *out,
                  wane_error *error) {
    const struct wane__linear *model = classifier->model;
    struct wane__features features = {0};
    double share[WANE__LINEAR_CLASSES];
    wane__clear(error);
    *out = (wane_classification){.domain = none, .likely = none, .threshold = (double)model->threshold};
    int status = wane__features_add(&features, text, size, SEED_OF_TEXT, model->bits, error);
    if (status != WANE_OK) {
        wane__features_free(&features);
        return status;
    }
    int best = wane__linear_choose(model, &features, share);
    for (int c = 0; c < model->classes; c++) {
        if (strcmp(model->name[c], none) == 0) continue;
        out->all[out->count].domain = model->name[c];
        out->all[out->count++].share = share[c];
        if (out->count > 1 && share[c] <= out->share) continue;
        out->likely = model->name[c];
        out->share = share[c];
    }
    if (best >= 0 && features.count > 0) out->domain = model->name[best]; /* nothing to go by says nothing */
    wane__features_free(&features);
    return WANE_OK;
}

/* ------------------------------------------------------------------- reading data */

struct text {
    char domain[NAME_MOST + 1], language[NAME_MOST + 1];
};

struct data {
    struct wane__lesson *lesson;
    struct text *text;
    size_t count, room;
};

static void free_data(struct data *data) {
    for (size_t i = 0; i < data->count; i++) wane__features_free(&data->lesson[i].features);
    wane__free(data->lesson);
    wane__free(data->text);
    *data = (struct data){0};
}

static bool make_room(struct data *data) {
    if (data->count < data->room) return true;
    size_t room = data->room > 0 ? 2 * data->room : 256;
    struct wane__lesson *lesson = wane__resize(data->lesson, room, sizeof *lesson);
    if (lesson != NULL) data->lesson = lesson;
    struct text *text = wane__resize(data->text, room, sizeof *text);
    if (text != NULL) data->text = text;
    if (lesson == NULL || text == NULL) return false;
    data->room = room;
    return true;
}

static bool copy_name(const json_t *value, char *out) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";
    const char *text = json_string_value(value);
    size_t size = text != NULL ? strlen(text) : 0;
    if (size == 0 || size > NAME_MOST || strspn(text, allowed) != size) return false;
    memcpy(out, text, size + 1);
    return true;
}

struct place {
    const char *path;
    size_t line;
    wane_error *error;
};

static int wrong(const struct place *at, const char *what) {
    return wane__fail(at->error, WANE_EFORMAT, "%s, line %zu: %s.", at->path, at->line, what);
}

static int take_object(const struct place *at, const json_t *object, struct data *data) {
    const json_t *language = json_object_get(object, "language"), *text = json_object_get(object, "text");
    if (!make_room(data)) return wane__fail(at->error, WANE_ENOMEM, "No memory for the texts.");
    struct text *name = &data->text[data->count];
    *name = (struct text){.language = "?"};
    if (!copy_name(json_object_get(object, "domain"), name->domain))
        return wrong(at, "\"domain\" must be 1 to 15 of a-z 0-9 - _, or \"none\"");
    if (language != NULL && !copy_name(language, name->language))
        return wrong(at, "\"language\" must be 1 to 15 of a-z 0-9 - _, or left out");
    if (json_string_length(text) == 0) return wrong(at, "\"text\" is missing or empty");
    struct wane__lesson *lesson = &data->lesson[data->count];
    *lesson = (struct wane__lesson){.label = -1};
    int status = wane__features_add(&lesson->features, json_string_value(text), json_string_length(text),
                                    SEED_OF_TEXT, BITS, at->error);
    if (status == WANE_OK)
        data->count++;
    else
        wane__features_free(&lesson->features);
    return status;
}

static int take_line(const struct place *at, const char *line, size_t size, struct data *data) {
    if (strspn(line, " \t\r") >= size) return WANE_OK;
    json_t *object = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    int status = WANE_OK;
    if (!json_is_object(object))
        status = wrong(at, "it must be a JSON object with \"domain\" and \"text\"");
    else if (data->count >= TEXTS_MOST)
        status = wrong(at, "there are too many texts; at most 1,000,000 can be learned from");
    else
        status = take_object(at, object, data);
    json_decref(object);
    return status;
}

static int read_data(const char *path, struct data *data, wane_error *error) {
    char *bytes;
    size_t size;
    int status = wane__file_read(path, "the texts", DATA_MOST, &bytes, &size, error);
    struct place at = {path, 0, error};
    for (size_t from = 0; status == WANE_OK && from < size;) {
        const char *end = memchr(bytes + from, '\n', size - from);
        size_t length = end != NULL ? (size_t)(end - bytes) - from : size - from;
        at.line++;
        status = take_line(&at, bytes + from, length, data);
        from += length + 1;
    }
    wane__free(bytes);
    return status;
}

/* ------------------------------------------------------------------- naming */

static int find(char (*list)[16], int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(list[i], name) == 0) return i;
    return -1;
}

static int names_ascend(const void *a, const void *b) {
    return strcmp(a, b);
}

/* The domains of the data, in alphabetical order; and its languages, in theirs. */
static int collect_names(const struct data *data, wane_domains_report *r, wane_error *error) {
    for (size_t i = 0; i < data->count; i++) {
        const struct text *t = &data->text[i];
        if (strcmp(t->domain, none) == 0) r->general = 1;
        if (strcmp(t->domain, none) != 0 && find(r->domain, r->domains, t->domain) < 0) {
            if (r->domains == WANE_DOMAINS_MOST)
                return wane__fail(error, WANE_EINVAL, "There are more than %d domains in the texts.",
                                  WANE_DOMAINS_MOST);
            memcpy(r->domain[r->domains++], t->domain, sizeof t->domain);
        }
        if (find(r->language, r->languages, t->language) < 0 && r->languages < WANE_DOMAINS_MOST)
            memcpy(r->language[r->languages++], t->language, sizeof t->language);
    }
    if (r->domains < 2)
        return wane__fail(error, WANE_EINVAL,
                          "A classifier needs texts of two domains at least; the texts have %d.", r->domains);
    qsort(r->domain, (size_t)r->domains, sizeof *r->domain, names_ascend);
    qsort(r->language, (size_t)r->languages, sizeof *r->language, names_ascend);
    memcpy(r->domain[r->domains], none, sizeof none);
    return WANE_OK;
}

static int label(struct data *data, wane_domains_report *r, const char *path, wane_error *error) {
    for (size_t i = 0; i < data->count; i++) {
        const char *name = data->text[i].domain;
        data->lesson[i].label = find(r->domain, r->domains + r->general, name);
        if (data->lesson[i].label < 0 && strcmp(name, none) != 0)
            return wane__fail(error, WANE_EINVAL,
                              "%s has texts of the domain %s, which the others do not have.", path, name);
    }
    return WANE_OK;
}

/* ------------------------------------------------------------------- training */

static void finish(wane_share *share) {
    wane__share_interval((double)share->right, (double)share->all, &share->low, &share->high);
}

static void count_one(wane_share *share, bool right) {
    share->all++;
    share->right += right;
}

static void measure(const struct wane__linear *model, const struct data *held, wane_domains_report *r) {
    for (size_t i = 0; i < held->count; i++) {
        double share[WANE__LINEAR_CLASSES];
        int is = held->lesson[i].label, taken = wane__linear_choose(model, &held->lesson[i].features, share);
        if (is == r->domains) is = -1;
        int language = find(r->language, r->languages, held->text[i].language);
        count_one(&r->all, is == taken);
        if (is >= 0) count_one(&r->of_domains, is == taken);
        if (taken >= 0) count_one(&r->taken, is == taken);
        if (language >= 0) count_one(&r->by_language[language], is == taken);
        r->confusion[is >= 0 ? is : r->domains][taken >= 0 ? taken : r->domains]++;
    }
    finish(&r->all);
    finish(&r->of_domains);
    finish(&r->taken);
    for (int i = 0; i < r->languages; i++) finish(&r->by_language[i]);
}

static int train(const wane_domains_train_options *o, struct wane__linear *model, struct data *data,
                 struct data *held, wane_domains_report *r, wane_error *error) {
    int status = collect_names(data, r, error);
    if (status == WANE_OK) status = label(data, r, o->data[0], error);
    if (status == WANE_OK) status = label(held, r, o->held_out != NULL ? o->held_out : "", error);
    if (status != WANE_OK) return status;
    model->classes = r->domains + r->general;
    for (int c = 0; c < model->classes; c++) memcpy(model->name[c], r->domain[c], sizeof r->domain[c]);
    status =
        wane__linear_find_threshold(model, data->lesson, data->count, o->progress, o->progress_user, error);
    if (status == WANE_OK)
        status =
            wane__linear_train(model, data->lesson, data->count, NULL, o->progress, o->progress_user, error);
    if (status != WANE_OK) return status;
    measure(model, held, r);
    model->examples = (uint32_t)data->count;
    model->held = (uint32_t)held->count;
    model->figure = r->all.all > 0 ? (double)r->all.right / (double)r->all.all : (double)NAN;
    model->low = r->all.low;
    model->high = r->all.high;
    r->threshold = (double)model->threshold;
    r->texts = data->count;
    r->held_texts = held->count;
    r->bytes = wane__linear_bytes(model);
    return o->output != NULL ? wane__linear_write(model, o->output, error) : WANE_OK;
}

void wane_domains_train_options_init(wane_domains_train_options *options) {
    *options = (wane_domains_train_options){.size = sizeof *options, .seed = 1};
}

int wane_domains_train(const wane_domains_train_options *o, wane_domains_report *report, wane_error *error) {
    double start = wane__now();
    wane__clear(error);
    if (o->size != sizeof *o)
        return wane__fail(error, WANE_EINVAL, "The options of training were not initialised.");
    if (o->data_count == 0) return wane__fail(error, WANE_EINVAL, "There are no texts to learn from.");
    struct data data = {0}, held = {0};
    wane_domains_report *r = wane__alloc_zero(1, sizeof *r);
    struct wane__linear *model = wane__alloc_zero(1, sizeof *model);
    int status = r != NULL && model != NULL ? WANE_OK : wane__fail(error, WANE_ENOMEM, "No memory to train.");
    if (r != NULL && model != NULL) {
        model->kind = WANE__LINEAR_DOMAINS;
        model->bits = BITS;
        model->seed = o->seed;
    }
    for (size_t i = 0; i < o->data_count && status == WANE_OK; i++)
        status = read_data(o->data[i], &data, error);
    if (status == WANE_OK && o->held_out != NULL) status = read_data(o->held_out, &held, error);
    if (status == WANE_OK && r != NULL && model != NULL) status = train(o, model, &data, &held, r, error);
    if (status == WANE_OK && report != NULL && r != NULL) {
        r->seconds = wane__now() - start;
        *report = *r;
    }
    free_data(&data);
    free_data(&held);
    wane__linear_free(model);
    wane__free(r);
    return status;
}
