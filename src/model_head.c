/*
 * model_head.c - a model's certified head: whether it may have one, where its sketch lies, building it, its public face.
 *
 * What goes wrong with it is no reason not to load: the dense head does the same.
 */
#include "calibrate.h"
#include "core/error.h"
#include "core/memory.h"
#include "model.h"
#include "sketch_place.h"
#include "statistics.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Rows in one scan. Its scratch is V numbers a row, and beyond a few rows a scan is bound by arithmetic. */
#define SCAN_MOST 8

/* The calibration's part in the progress of making a sketch. */
#define CALIBRATED 0.8

/* ------------------------------------------------------------------ weights */

static int weights_rows(void *user, int first, int count, float *out) {
    struct wane__engine *engine = user;
    return engine->ops->head_rows(engine, first, count, out);
}

static int weights_rescore(void *user, const float *hidden, const int32_t *ids, int count, float *logits) {
    struct wane__engine *engine = user;
    return engine->ops->rescore(engine, hidden, ids, count, logits);
}

static int weights_prepare(void *user, const float *hidden, void *prepared) {
    struct wane__engine *engine = user;
    return engine->ops->rescore_prepare(engine, hidden, prepared);
}

static int weights_rescore_prepared(void *user, const void *prepared, const int32_t *ids, int count,
                                    float *logits) {
    struct wane__engine *engine = user;
    return engine->ops->rescore_prepared(engine, prepared, ids, count, logits);
}

static int weights_seen(void *user, const float *hidden, const void *prepared, float *out) {
    struct wane__engine *engine = user;
    (void)hidden;
    return engine->ops->rescore_seen(engine, prepared, out);
}

/* Can a prepared row be read back? */
static bool can_be_seen(struct wane__engine *engine) {
    size_t size = engine->ops->rescore_size(engine), d = (size_t)engine->facts.embedding_size;
    float *row = wane__alloc_zero(d, sizeof *row);
    void *prepared = wane__alloc_aligned(64, size + 64);
    bool can = row != NULL && prepared != NULL &&
               engine->ops->rescore_prepare(engine, row, prepared) == WANE_OK &&
               engine->ops->rescore_seen(engine, prepared, row) == WANE_OK;
    wane__free(prepared);
    wane__free(row);
    return can;
}

static struct wane__head_weights weights_of(struct wane__engine *engine) {
    return (struct wane__head_weights){
        .vocab_size = engine->facts.vocab_size,
        .d = engine->facts.embedding_size,
        .rows = weights_rows,
        .rescore = weights_rescore,
        .prepared_size = engine->ops->rescore_size(engine),
        .prepare = weights_prepare,
        .rescore_prepared = weights_rescore_prepared,
        .seen = can_be_seen(engine) ? weights_seen : NULL,
        .user = engine,
    };
}

/* Why this model cannot have a certified head; NULL: it can. */
static const char *obstacle(struct wane__engine *engine) {
    const wane_model_facts *facts = &engine->facts;
    const struct wane__engine_ops *ops = engine->ops;
    if (facts->recurrent) return "the model is recurrent";
    if (!facts->head_plain) return "more than a product follows the model's last norm";
    if (ops->head_rows == NULL || ops->rescore_size == NULL || ops->rescore_size(engine) == 0)
        return "the engine keeps the head in a form whose rows cannot be read";
    if (!facts->rescoring_exact) return "rescored logits are not the dense head's";
    float *row = wane__alloc_zero((size_t)facts->embedding_size, sizeof *row);
    bool readable = row != NULL && ops->head_rows(engine, 0, 1, row) == WANE_OK;
    wane__free(row);
    return readable ? NULL : "the head's weights are of a type that cannot be read back";
}

/* ------------------------------------------------------------------- folder */

/* With all folders above it; 0 or an errno. */
static int make_folder(char *path) {
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash != NULL) *slash = '\0';
        int failed = mkdir(path, 0777) != 0 && errno != EEXIST ? errno : 0;
        if (slash == NULL) return failed;
        *slash = '/';
    }
}

/* ------------------------------------------------------------------ opening */

struct opening {
    wane_model *model;
    const wane_model_options *options;
    struct wane__head_weights weights;
    char path[1200];
    char digest[33];
    bool built;
};

/* The build's own progress is the rest of ours. */
static bool on_build(void *user, const char *what, double share) {
    const struct opening *o = user;
    (void)what;
    return o->options->progress(o->options->progress_user, "head", CALIBRATED + (1 - CALIBRATED) * share);
}

static int build(struct opening *o, wane_error *error) {
    struct wane__engine *engine = o->model->engine;
    struct wane__moments moments;
    const char *recorded = o->options->head_statistics;
    wane__log(&o->model->log, WANE_LOG_INFO, "head: making the sketch, once for this model: %s", o->path);
    int result = recorded != NULL ? wane__statistics_read(recorded, o->digest, engine->facts.embedding_size,
                                                          &moments, error)
                                  : wane__calibrate(engine, o->options->progress, o->options->progress_user,
                                                    CALIBRATED, &moments, error);
    if (result != WANE_OK) return result;
    struct wane__head_statistics statistics = {moments.mean, moments.covariance, moments.rows};
    result = wane__sketch_build(o->path, &o->weights, &statistics, o->digest, engine->facts.threads,
                                o->options->progress != NULL ? on_build : NULL, o, error);
    wane__moments_free(&moments);
    o->built = result == WANE_OK;
    return result;
}

static int open_sketch(struct opening *o, wane_error *error) {
    struct wane__rows *rows = &o->model->rows;
    const wane_model_facts *facts = &o->model->engine->facts;
    rows->scan_most = facts->sequences < SCAN_MOST ? facts->sequences : SCAN_MOST;
    int result = wane__head_open(o->path, &o->weights, o->digest, o->options->head_sigmas, facts->threads,
                                 rows->scan_most, &rows->head, error);
    const char *kernel = o->options->head_kernel;
    if (result != WANE_OK || kernel == NULL || strcmp(kernel, "auto") == 0) return result;
    result = wane__head_use_kernel(rows->head, kernel);
    if (result == WANE_OK) return result;
    wane__head_free(rows->head);
    rows->head = NULL;
    return wane__fail(error, result, "this processor has no kernels of the kind \"%.20s\"", kernel);
}

static int open_or_build(struct opening *o, wane_error *error) {
    char folder[1024];
    int result = wane_model_digest(o->model, o->digest, error);
    if (result != WANE_OK) return result;
    if (!wane__sketch_folder(o->options->head_folder, folder, sizeof folder))
        return wane__fail(error, WANE_ENOENT, "no folder for its sketch is known (HOME is not set)");
    wane__sketch_path(folder, o->digest, o->path, sizeof o->path);
    result = o->options->head_rebuild ? WANE_ENOENT : open_sketch(o, error);
    if (result != WANE_ENOENT && result != WANE_EFORMAT) return result;
    if (o->options->head_found && result == WANE_ENOENT)
        return wane__fail(error, result, "there is no sketch of this model yet: %s", o->path);
    if (o->options->head_found) return result;
    if (result == WANE_EFORMAT)
        wane__log(&o->model->log, WANE_LOG_WARN, "head: %s", error != NULL ? error->text : "damaged sketch");
    int failed = make_folder(folder);
    if (failed != 0)
        return wane__fail(error, WANE_EIO, "there is no place for its sketch: %s: %s", folder,
                          strerror(failed));
    result = build(o, error);
    return result == WANE_OK ? open_sketch(o, error) : result;
}

static void fill_state(struct opening *o) {
    struct wane__rows *rows = &o->model->rows;
    struct wane__sketch_facts facts;
    wane__head_get_facts(rows->head, &facts);
    pthread_mutex_lock(&rows->lock);
    rows->state.path = o->model->sketch_path;
    rows->state.kernel = wane__head_kernel(rows->head);
    rows->state.bits_level1 = facts.bits_level1;
    rows->state.bits_level2 = facts.bits_level2;
    rows->state.bytes = facts.bytes;
    rows->state.statistics_rows = facts.statistics_rows;
    rows->state.built = o->built;
    rows->state.sigmas = (double)o->options->head_sigmas;
    rows->state.failure_probability = 0.5 * erfc((double)o->options->head_sigmas / sqrt(2));
    pthread_mutex_unlock(&rows->lock);
    wane__log(&o->model->log, WANE_LOG_INFO,
              "head: certified, %.2g + %.2g bits a weight, %.1f MB, %s, k %.3g", facts.bits_level1,
              facts.bits_level2, (double)facts.bytes / 1e6, rows->state.kernel,
              (double)o->options->head_sigmas);
}

static void set_reason(wane_model *model, const char *reason) {
    pthread_mutex_lock(&model->rows.lock);
    model->rows.state.reason = reason;
    pthread_mutex_unlock(&model->rows.lock);
    wane__rows_settle(&model->rows);
}

static int check_options(const wane_model_options *options, wane_error *error) {
    if (options->head != WANE_HEAD_CERTIFIED && options->head != WANE_HEAD_DENSE)
        return wane__fail(error, WANE_EINVAL,
                          "head is %d; it must be WANE_HEAD_CERTIFIED or WANE_HEAD_DENSE.", options->head);
    if (!(options->head_sigmas >= 3 && options->head_sigmas <= 12))
        return wane__fail(error, WANE_EINVAL, "head_sigmas is %g; it must be 3 to 12.",
                          (double)options->head_sigmas);
    if (!(options->shadow >= 0 && options->shadow <= 1))
        return wane__fail(error, WANE_EINVAL, "shadow is %g; it must be 0 to 1.", options->shadow);
    return WANE_OK;
}

static int give_up(wane_model *model, const char *why) {
    snprintf(model->head_reason, sizeof model->head_reason, "%s", why);
    wane__log(&model->log, WANE_LOG_INFO, "head: dense: %s", model->head_reason);
    set_reason(model, model->head_reason);
    return WANE_OK;
}

int wane__model_head_open(wane_model *model, const wane_model_options *options, wane_error *error) {
    int result = check_options(options, error);
    if (result != WANE_OK) return result;
    if (options->vocab_only) return WANE_OK;
    wane__rows_set_shadow(&model->rows,
                          options->shadow); /* drafts and the memo are looked at by the same share */
    if (options->head == WANE_HEAD_DENSE) {
        set_reason(model, "chosen");
        return WANE_OK;
    }
    const char *why = obstacle(model->engine);
    if (why != NULL) return give_up(model, why);
    struct opening o = {.model = model, .options = options, .weights = weights_of(model->engine)};
    wane_error reason = {0};
    result = open_or_build(&o, &reason);
    if (result == WANE_OK) {
        model->sketch_path = wane__copy_string(o.path);
        if (model->sketch_path == NULL) result = wane__fail(&reason, WANE_ENOMEM, "no memory");
    }
    if (result == WANE_ECANCELLED) return wane__fail(error, result, "%s", reason.text);
    if (result != WANE_OK) return give_up(model, reason.text);
    model->rows.pace.always = options->head_always;
    model->rows.mode = WANE_HEAD_CERTIFIED;
    fill_state(&o);
    wane__rows_settle(&model->rows);
    return WANE_OK;
}

/* ------------------------------------------------------------------- public */

int wane_model_set_head(wane_model *model, int head, wane_error *error) {
    wane__clear(error);
    if (head != WANE_HEAD_CERTIFIED && head != WANE_HEAD_DENSE && head != WANE_HEAD_NONE)
        return wane__fail(error, WANE_EINVAL, "head is %d; it must be one of WANE_HEAD_….", head);
    if (head == WANE_HEAD_CERTIFIED && model->rows.head == NULL) {
        return wane__fail(error, WANE_EUNSUPPORTED, "This model was loaded without a certified head: %s.",
                          model->rows.state.reason);
    }
    if (wane__model_take(model, error) != WANE_OK) return WANE_EBUSY;
    model->rows.mode = head;
    set_reason(model, head == WANE_HEAD_CERTIFIED ? ""
                      : model->rows.head == NULL  ? model->rows.state.reason
                                                  : "chosen");
    wane__rows_settle(&model->rows);
    wane__model_give(model);
    return WANE_OK;
}

void wane_model_get_head_state(wane_model *model, wane_head_state *state) {
    pthread_mutex_lock(&model->rows.lock);
    *state = model->rows.state;
    pthread_mutex_unlock(&model->rows.lock);
    bool diverged = wane__divergence_is_off(&model->rows.watch[WANE_WATCHED_HEAD]);
    if (!diverged && !wane__rows_lack(&model->rows, WANE_FEATURE_HEAD)) return;
    state->certified = false;
    if (diverged)
        state->reason = "switched off after divergences from the dense head";
    else if (state->reason[0] == '\0')
        state->reason = "switched off";
}

/* Texts of the caller's, through the body and into moments; the model is nobody else's meanwhile. */
static int take_statistics(wane_model *model, const wane_conversation *conversations, size_t count,
                           wane_progress_fn progress, void *user, struct wane__moments *moments,
                           wane_error *error) {
    struct wane__calibration_text *texts = wane__alloc_zero(count, sizeof *texts);
    if (texts == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for %zu conversations.", count);
    for (size_t i = 0; i < count; i++)
        texts[i] = (struct wane__calibration_text){.messages = conversations[i].messages,
                                                   .count = conversations[i].count};
    int result = wane__calibrate_on(model->engine, texts, count, progress, user, 1, moments, error);
    wane__free(texts);
    return result;
}

int wane_model_write_statistics(wane_model *model, const wane_conversation *conversations, size_t count,
                                const char *path, wane_progress_fn progress, void *progress_user,
                                int64_t *rows, wane_error *error) {
    struct wane__moments moments = {0};
    char digest[33];
    wane__clear(error);
    if (count == 0) return wane__fail(error, WANE_EINVAL, "No text was given to take statistics from.");
    if (model->engine->facts.recurrent || !model->engine->facts.head_plain)
        return wane__fail(error, WANE_EUNSUPPORTED, "This model can have no certified head.");
    int result = wane_model_digest(model, digest, error);
    if (result != WANE_OK) return result;
    if (wane__model_take(model, error) != WANE_OK) return WANE_EBUSY;
    result = take_statistics(model, conversations, count, progress, progress_user, &moments, error);
    wane__model_give(model);
    if (result != WANE_OK) return result;
    result = wane__statistics_write(path, digest, model->engine->facts.embedding_size, &moments, error);
    if (rows != NULL) *rows = moments.rows;
    wane__moments_free(&moments);
    return result;
}
