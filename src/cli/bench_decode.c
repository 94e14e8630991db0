/*
 * bench_decode.c - the two measurements that `wane bench decode` compares.
 *
 * Both sides decode the same tokens at the same positions, and the clock runs over the same work:
 *
 *     prompt ─► token 0 │ decode 0, draw 1 │ decode 1, draw 2 │ … │ decode steps-1, draw steps │
 *     not timed         └──────────────────────────── timed ─────────────────────────────────┘
 *
 * The engine's side is a bare llama_decode and llama.cpp's greedy sampler. wane's side is the public interface as a
 * program uses it, measured from outside: it also detokenises, looks for ends and stops, and hands each token over.
 * With several streams, what the engine's side has and wane must build by itself is a batch in which all streams
 * take part; so wane's window opens when the last stream has its first token and closes when that stream has `steps`
 * more, and no stream ends before that.
 */
#include "bench.h"
#include "sorted.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

int bench_work_open(struct bench_work *work, wane_model *model, char *const *texts, int text_count, int count,
                    int steps, wane_error *error) {
    *work = (struct bench_work){.model = model, .count = count, .steps = steps};
    wane_generation defaults;
    wane_generation_init(&defaults);
    work->sampling = defaults.sampling;
    work->sampling.temperature = 0;
    work->sampling.seeded = true;
    work->prompts = text_alloc((size_t)count * sizeof *work->prompts);
    for (int i = 0; i < count; i++) {
        const char *text = texts != NULL ? texts[i % text_count] : bench_prompts[i % bench_prompt_count].text;
        wane_message message = {"user", text, strlen(text)};
        int result = wane_chat_tokenize(model, &message, 1, &work->prompts[i], error);
        if (result != WANE_OK) return result;
    }
    return WANE_OK;
}

void bench_long_prompt(const struct bench_work *work, int tokens, wane_tokens *prompt) {
    size_t want = (size_t)tokens;
    *prompt = (wane_tokens){.id = text_alloc(want * sizeof *prompt->id), .capacity = want};
    while (prompt->count < want) {
        const wane_tokens *piece = &work->prompts[prompt->count % (size_t)work->count];
        size_t room = want - prompt->count, take = piece->count < room ? piece->count : room;
        memcpy(prompt->id + prompt->count, piece->id, take * sizeof *prompt->id);
        prompt->count += take;
    }
}

void bench_work_close(struct bench_work *work) {
    for (int i = 0; i < work->count; i++) wane_tokens_free(&work->prompts[i]);
    free(work->prompts);
    *work = (struct bench_work){0};
}

int bench_engine(const struct bench_work *work, int first, int streams, struct bench_run *run,
                 wane_error *error) {
    wane_reference *reference = NULL;
    int result = wane_reference_new(work->model, streams, &reference, error);
    if (result == WANE_OK)
        result = wane_reference_run(reference, work->prompts + first, work->steps, run->ids, &run->ms, error);
    wane_reference_free(reference);
    return result;
}

static void generation_of(const struct bench_work *work, int stream, int max_tokens,
                          wane_generation *generation) {
    wane_generation_init(generation);
    generation->sampling = work->sampling;
    generation->sampling.seed += (uint64_t)stream;
    generation->ignore_end = true; /* both sides decode the same number of tokens */
    generation->max_tokens = max_tokens;
}

static int stopped(wane_error *error) {
    *error = (wane_error){.code = WANE_ECANCELLED};
    return WANE_ECANCELLED;
}

/* A reply that ends before its last token cannot be compared. */
static int too_short(wane_error *error) {
    *error =
        (wane_error){.code = WANE_EINTERNAL, .text = "a reply ended before its last token; please report it"};
    return WANE_EINTERNAL;
}

static int one_stream(const struct bench_work *work, wane_session *session, int stream, struct bench_run *run,
                      wane_error *error) {
    const wane_tokens *prompt = &work->prompts[stream];
    wane_generation generation;
    generation_of(work, stream, work->steps + 1, &generation);
    double begun = 0;
    int result = wane_session_start(session, prompt->id, prompt->count, &generation, error);
    for (int i = 0; result == WANE_OK && i <= work->steps; i++) {
        wane_event event;
        result = wane_session_next(session, &event, error);
        if (result == WANE_OK && event.kind != WANE_EVENT_TEXT) return too_short(error);
        if (i == 0) begun = now_ms();
        if (result == WANE_OK && i < work->steps) run->ids[i] = event.token;
    }
    run->ms = now_ms() - begun;
    return result;
}

/* ---- several streams ---------------------------------------------------------------------------------------------- */

struct streams {
    const struct bench_work *work;
    int count;
    wane_ticket **ticket;
    int *have; /* tokens read of each */
    int32_t *ids;
};

/* Read until each stream has `wanted` tokens. */
static int read_up_to(struct streams *s, int wanted, wane_error *error) {
    for (int i = 0; i < s->count; i++) {
        while (s->have[i] < wanted) {
            wane_event event;
            bool ended = false;
            int result = wane_ticket_next(s->ticket[i], 1000, &event, &ended, error);
            if (interrupt_seen()) return stopped(error);
            if (result == WANE_ETIMEOUT && !ended) continue;
            if (result != WANE_OK) return result;
            if (event.kind == WANE_EVENT_END) return too_short(error);
            if (event.kind != WANE_EVENT_TEXT) continue;
            if (s->have[i] < s->work->steps)
                s->ids[(size_t)i * (size_t)s->work->steps + (size_t)s->have[i]] = event.token;
            s->have[i]++;
        }
    }
    return WANE_OK;
}

/*
 * Streams whose prompt came in early run ahead by a token for each call that the other prompts take. So all get more
 * tokens than are read, and are cancelled: none may leave the batch while the clock runs. The scheduler takes at least
 * one prompt token a call, usually 128.
 */
static int run_streams(struct streams *s, wane_scheduler *scheduler, int first, double *ms,
                       wane_error *error) {
    const struct bench_work *work = s->work;
    wane_generation generation;
    size_t prompt_tokens = 0;
    for (int i = 0; i < s->count; i++) prompt_tokens += work->prompts[first + i].count;
    int result = WANE_OK;
    for (int i = 0; i < s->count && result == WANE_OK; i++) {
        const wane_tokens *prompt = &work->prompts[first + i];
        generation_of(work, first + i, work->steps + 1 + s->count + (int)prompt_tokens / 32, &generation);
        result =
            wane_scheduler_submit(scheduler, prompt->id, prompt->count, &generation, &s->ticket[i], error);
    }
    if (result == WANE_OK) result = read_up_to(s, 1, error);
    double begun = now_ms();
    /* One token of each in turn, so that no inbox grows: a reader that keeps up, as a server's does. */
    for (int wanted = 2; wanted <= work->steps + 1 && result == WANE_OK; wanted++)
        result = read_up_to(s, wanted, error);
    *ms = now_ms() - begun;
    return result;
}

static int many_streams(const struct bench_work *work, int first, int count, struct bench_run *run,
                        wane_error *error) {
    wane_scheduler_options options;
    wane_scheduler *scheduler = NULL;
    wane_scheduler_options_init(&options);
    /* All streams start in one batch, so that every measurement sees the same batches and rounds alike. */
    options.max_batch_requests = count;
    options.window_ms = 1000;
    int result = wane_scheduler_new(work->model, &options, &scheduler, error);
    if (result != WANE_OK) return result;
    struct streams streams = {work, count, text_alloc((size_t)count * sizeof(wane_ticket *)),
                              text_alloc((size_t)count * sizeof(int)), run->ids};
    result = run_streams(&streams, scheduler, first, &run->ms, error);
    for (int i = 0; i < count; i++) wane_ticket_free(streams.ticket[i]);
    free(streams.ticket);
    free(streams.have);
    wane_scheduler_stop(scheduler, 0);
    wane_scheduler_free(scheduler);
    return result;
}

int bench_wane(const struct bench_work *work, int first, int streams, struct bench_run *run,
               wane_error *error) {
    if (streams > 1) return many_streams(work, first, streams, run, error);
    wane_session *session = NULL;
    int result = wane_session_new(work->model, &session, error);
    if (result != WANE_OK) return result;
    interrupt_target(session);
    result = interrupt_seen() ? stopped(error) : one_stream(work, session, first, run, error);
    interrupt_target(NULL);
    wane_session_free(session);
    return result;
}

double bench_median(double *values, int count) {
    sort_numbers(values, (size_t)count);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}
