/*
 * test_ahead.c - drafts in sessions and in the scheduler, on the scripted engine: whatever is asked for, the reply is the same
 * with drafts and without, to the last bit, and so is what the engine holds afterwards.
 */
#include "draft_practice.h"
#include "test_scheduler_rig.h"

#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 400, END_TOKEN = 257 };

static const char line[] = "the cat sat on the mat and the dog ran to the barn; ";
static int32_t copy_tokens[3 * sizeof line], beat_tokens[120], short_tokens[40], fail_tokens[100];
static struct wane__script_reply replies[] = {
    {.match = "copy", .tokens = copy_tokens, .fail_at = -1},
    {.match = "beat", .tokens = beat_tokens, .count = 120, .fail_at = -1},
    {.match = "short", .tokens = short_tokens, .count = 30, .fail_at = -1},
    {.match = "fail", .tokens = fail_tokens, .count = 100, .fail_at = 57},
};
static char folder[] = "/tmp/wane-ahead-XXXXXX";

static int make(void **unused) {
    (void)unused;
    size_t size = sizeof line - 1;
    for (size_t i = 0; i < 3 * size; i++) copy_tokens[i] = (unsigned char)line[i % size];
    replies[0].count = 3 * size;
    for (int i = 0; i < 120; i++) beat_tokens[i] = "abcd"[i % 4];
    for (size_t i = 0; i < 30; i++) short_tokens[i] = (unsigned char)line[i];
    for (int i = 0; i < 100; i++) fail_tokens[i] = "xyz"[i % 3];
    return mkdtemp(folder) == NULL;
}

static int sweep(void **unused) {
    (void)unused;
    char path[200];
    snprintf(path, sizeof path, "%s/00112233445566778899aabbccddeeff-2.sketch", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/rules.json", folder);
    unlink(path);
    return rmdir(folder);
}

static struct wane__script script_of(int sequences) {
    return (struct wane__script){
        .replies = replies, .reply_count = 4, .context = MOST, .sequences = sequences, .batch = 128};
}

static wane_model *model_of(struct wane__script script, int draft, bool head) {
    struct wane__engine *engine;
    wane_model *model;
    wane_error error = {0};
    wane_model_options options;
    wane_model_options_init(&options);
    options.kv_type_k = "q8_0"; /* else there are no drafts beside others */
    options.head_folder = folder;
    options.head_always = true;
    options.shadow = 0;
    options.draft = draft;
    assert_int_equal(wane__script_load(&script, NULL, &engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, &error), WANE_OK);
    snprintf(model->digest, sizeof model->digest, "00112233445566778899aabbccddeeff");
    if (head) assert_int_equal(wane__model_head_open(model, &options, &error), WANE_OK);
    assert_int_equal(wane__drafts_open(&model->drafts, &options, &error), WANE_OK);
    return model;
}

static wane_draft_state state_of(wane_model *model) {
    wane_draft_state state;
    wane_model_get_draft_state(model, &state);
    return state;
}

static uint64_t sum(const uint64_t *values) {
    uint64_t all = 0;
    for (int i = 0; i < WANE_DRAFT_SOURCES; i++) all += values[i];
    return all;
}

/* Everything that can be seen of a reply. */
struct seen {
    int code, tokens, drafted, reply_tokens, length;
    int32_t id[MOST];
    float logprob[MOST], top[MOST];
    char text[4 * MOST], stop[64];
    size_t size;
    wane_finish finish;
};

static void see(struct seen *seen, const wane_event *event) {
    if (event->text_size > 0) memcpy(seen->text + seen->size, event->text, event->text_size);
    seen->size += event->text_size;
    if (event->kind == WANE_EVENT_TEXT) {
        seen->id[seen->tokens] = event->token;
        seen->logprob[seen->tokens] = event->logprob;
        seen->top[seen->tokens] = event->top_count > 0 ? event->top[event->top_count - 1].logprob : 0;
        seen->tokens++;
        seen->drafted += event->drafted;
        return;
    }
    if (event->kind != WANE_EVENT_END) return;
    seen->finish = event->finish;
    seen->reply_tokens = event->reply_tokens;
    if (event->stop != NULL) snprintf(seen->stop, sizeof seen->stop, "%s", event->stop);
}

static int length_of(wane_model *model, int seq) {
    struct wane__script_counts counts;
    wane__script_get_counts(model->engine, &counts);
    assert_int_equal(counts.violations, 0);
    return counts.length[seq];
}

static size_t prompt_of(const char *text, int32_t *out) {
    size_t count = strlen(text);
    for (size_t i = 0; i < count; i++) out[i] = (unsigned char)text[i];
    return count;
}

static void by_session(wane_model *model, const char *prompt, const wane_generation *g, struct seen *seen) {
    wane_session *session;
    wane_error error = {0};
    wane_event event = {0};
    int32_t tokens[MOST];
    memset(seen, 0, sizeof *seen);
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    seen->code = wane_session_start(session, tokens, prompt_of(prompt, tokens), g, &error);
    while (seen->code == WANE_OK && event.kind != WANE_EVENT_END) {
        seen->code = wane_session_next(session, &event, &error);
        if (seen->code == WANE_OK) see(seen, &event);
    }
    seen->length = length_of(model, 0);
    wane_session_free(session);
}

static wane_ticket *submit(wane_scheduler *scheduler, const char *prompt, const wane_generation *g) {
    wane_ticket *ticket;
    wane_error error = {0};
    int32_t tokens[MOST];
    assert_int_equal(wane_scheduler_submit(scheduler, tokens, prompt_of(prompt, tokens), g, &ticket, &error),
                     WANE_OK);
    return ticket;
}

static void read_ticket(wane_ticket *ticket, struct seen *seen) {
    wane_error error = {0};
    bool ended = false;
    memset(seen, 0, sizeof *seen);
    while (!ended && seen->code == WANE_OK) {
        wane_event event;
        seen->code = wane_ticket_next(ticket, 20000, &event, &ended, &error);
        if (seen->code == WANE_OK) see(seen, &event);
    }
    wane_ticket_free(ticket);
}

static void by_scheduler(wane_model *model, const char *prompt, const wane_generation *g, struct seen *seen) {
    wane_scheduler_options options = quick_options();
    wane_scheduler *scheduler;
    wane_error error = {0};
    assert_int_equal(wane_scheduler_new(model, &options, &scheduler, &error), WANE_OK);
    read_ticket(submit(scheduler, prompt, g), seen);
    wane_scheduler_stop(scheduler, 1000);
    seen->length = length_of(model, 0);
    wane_scheduler_free(scheduler);
}

static void assert_same(const struct seen *a, const struct seen *b) {
    assert_int_equal(a->code, b->code);
    assert_int_equal(a->tokens, b->tokens);
    assert_memory_equal(a->id, b->id, (size_t)a->tokens * sizeof *a->id);
    assert_memory_equal(a->logprob, b->logprob, (size_t)a->tokens * sizeof *a->logprob);
    assert_memory_equal(a->top, b->top, (size_t)a->tokens * sizeof *a->top);
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->text, b->text, a->size);
    assert_int_equal(a->finish, b->finish);
    assert_string_equal(a->stop, b->stop);
    assert_int_equal(a->reply_tokens, b->reply_tokens);
    assert_int_equal(a->length, b->length);
}

static wane_generation plain(int max_tokens) {
    wane_generation g = greedy(max_tokens);
    g.sampling.seeded = true;
    g.sampling.seed = 99;
    return g;
}

/* ------------------------------------------------------------------ same tokens */

enum { KINDS = 16 };

static wane_quality quality_of(int kind) {
    wane_quality quality;
    wane_quality_init(&quality);
    quality.fuse = WANE_FUSE_OFF; /* loops of a scripted language are its own affair */
    quality.answers = 1;          /* one sequence is compared */
    if (kind >= 9) quality.mode = kind % 2 ? WANE_MODE_WANE : WANE_MODE_LEGACY;
    if (kind >= 11) quality.clamp = 3;
    quality.dialogue_scale = 64;
    return quality;
}

/* A token within what is copied, and one that the beat begins with, are held at some places. */
static void give_rules(wane_model *model) {
    char path[200];
    wane_error error = {0};
    snprintf(path, sizeof path, "%s/rules.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("[{\"name\":\"a\",\"pattern\":\"(the mat and the|abcdabcd)\\\\s*$\",\"tokens\":[100,97,32]}]",
          file);
    fclose(file);
    if (wane_model_set_rules(model, path, &error) != WANE_OK) fail_msg("%s", error.text);
}

static wane_generation kind_of(int kind, wane_bias *bias) {
    static const char *stops[] = {"dog ran", "zebra"};
    wane_generation g = plain(150);
    wane_sampling *s = &g.sampling;
    switch (kind) {
    case 1: s->temperature = 1; break;
    case 2: s->temperature = 0.7f, s->top_k = 0, s->top_p = 0.9f, s->min_p = 0; break;
    case 3: s->temperature = 1, s->min_p = 0.3f; break;
    case 4: s->repeat_penalty = 1.02f, s->penalty_window = 8; break;
    case 5: s->temperature = 0.5f, s->presence_penalty = 0.8f, s->frequency_penalty = 0.3f; break;
    case 6:
        *bias = (wane_bias){'t', -3};
        s->bias = bias, s->bias_count = 1;
        break;
    case 7: s->top_logprobs = 5; break;
    case 8: g.stops = stops, g.stop_count = 2; break;
    case 9: /* the quality's kinds: with a vote, a hold, a clamp */
    case 10: s->temperature = 0.7f; break;
    case 11:
    case 12: s->temperature = 0.5f, s->top_k = 0, s->top_logprobs = 2; break;
    case 13: break;
    case 14: /* hot enough for the linear head to be in doubt */
    case 15: s->temperature = 4, s->top_p = 1, s->min_p = 0; break;
    default: break;
    }
    return g;
}

static void test_every_sampler(void **unused) {
    (void)unused;
    static struct seen off, on, served;
    for (int head = 0; head < 2; head++) {
        struct wane__script script = script_of(2);
        script.linear = head;
        wane_model *without = model_of(script, WANE_DRAFT_OFF, head);
        wane_model *with = model_of(script, WANE_DRAFT_ALWAYS, head);
        int drafted[KINDS] = {0};
        give_rules(with);
        give_rules(without);
        for (int kind = 0; kind < KINDS; kind++) {
            wane_bias bias;
            wane_quality quality = quality_of(kind);
            wane_generation g = kind_of(kind, &bias);
            if (kind >= 9) g.quality = &quality;
            static const char *const prompts[] = {
                "copy: the cat sat on the mat and the dog ran to the barn; copy", "abcdabcdabcd beat"};
            for (int p = 0; p < 2; p++) {
                by_session(without, prompts[p], &g, &off);
                by_session(with, prompts[p], &g, &on);
                assert_same(&off, &on);
                assert_int_equal(off.drafted, 0);
                drafted[kind] += on.drafted;
                by_scheduler(with, prompts[p], &g, &served);
                assert_same(&off, &served);
                assert_true(off.code == WANE_OK && off.tokens > 10);
            }
        }
        for (int kind = 0; kind < KINDS; kind++) assert_true(drafted[kind] > 0 || kind == 1 || kind > 13);
        wane_correction_state corrected;
        wane_model_get_correction_state(with, &corrected);
        assert_true(corrected.vote.changed > 0 && corrected.held > 0);
        wane_draft_state state = state_of(with);
        assert_true(state.on && state.blocks > 10 && state.differing == 0 && state.rehearsals > 0);
        assert_true(sum(state.accepted) > 200 && sum(state.accepted) < sum(state.proposed));
        assert_int_equal(state_of(without).blocks, 0);
        wane_model_free(with);
        wane_model_free(without);
    }
}

/* A penalty that lets the first drafted token pass and not the second. */
static void test_a_penalty_rejects_the_second(void **unused) {
    (void)unused;
    static struct seen off, on;
    wane_model *without = model_of(script_of(1), WANE_DRAFT_OFF, false);
    wane_model *with = model_of(script_of(1), WANE_DRAFT_ALWAYS, false);
    for (int window = 1; window < 8; window++) {
        wane_generation g = plain(100);
        g.sampling.presence_penalty = 1.5f;
        g.sampling.penalty_window = window;
        by_session(without, "abcdabcdabcd beat", &g, &off);
        by_session(with, "abcdabcdabcd beat", &g, &on);
        assert_same(&off, &on);
    }
    wane_draft_state state = state_of(with);
    assert_true(sum(state.proposed) > sum(state.accepted) && sum(state.accepted) > 0);
    wane_model_free(with);
    wane_model_free(without);
}

/* ------------------------------------------------------------- ends in a block */

/* The end of turn, a stop string, the cap: each at every place of a block. */
static void test_ends(void **unused) {
    (void)unused;
    static struct seen off, on, served;
    static const char prompt[] = "the cat sat on the mat and the dog ran to the barn; the cat sat on short";
    wane_model *without = model_of(script_of(1), WANE_DRAFT_OFF, false);
    wane_model *with = model_of(script_of(1), WANE_DRAFT_ALWAYS, false);
    for (size_t count = 4; count < 30; count++) {
        wane_generation g = plain(0);
        replies[2].count = count; /* then the end of turn, where the draft goes on */
        by_session(without, prompt, &g, &off);
        by_session(with, prompt, &g, &on);
        by_scheduler(with, prompt, &g, &served);
        assert_same(&off, &on);
        assert_same(&off, &served);
        assert_int_equal(on.finish, WANE_FINISH_END);
        assert_int_equal(on.tokens, count);
        assert_int_equal(on.reply_tokens, count + 1);
        replies[2].count = 30;
        g.max_tokens = (int)count;
        by_session(without, prompt, &g, &off);
        by_session(with, prompt, &g, &on);
        by_scheduler(with, prompt, &g, &served);
        assert_same(&off, &on);
        assert_same(&off, &served);
        assert_int_equal(on.finish, WANE_FINISH_LENGTH);
        assert_int_equal(on.reply_tokens, count);
        char stop[8] = {0};
        memcpy(stop, line + count - 3, 3);
        const char *stops[] = {stop};
        g = plain(0);
        g.stops = stops;
        g.stop_count = 1;
        by_session(without, prompt, &g, &off);
        by_session(with, prompt, &g, &on);
        by_scheduler(with, prompt, &g, &served);
        assert_same(&off, &on);
        assert_same(&off, &served);
    }
    assert_true(state_of(with).blocks > 20);
    wane_model_free(with);
    wane_model_free(without);
}

/* The scheduler's own counts end at the same token. */
static void test_counts(void **unused) {
    (void)unused;
    static struct seen seen;
    for (int draft = WANE_DRAFT_OFF; draft <= WANE_DRAFT_ALWAYS; draft++) {
        wane_model *model = model_of(script_of(1), draft, false);
        wane_scheduler_options options = quick_options();
        wane_scheduler *scheduler;
        wane_scheduler_state state;
        wane_error error = {0};
        wane_generation g = plain(77);
        assert_int_equal(wane_scheduler_new(model, &options, &scheduler, &error), WANE_OK);
        read_ticket(submit(scheduler, "abcdabcd beat", &g), &seen);
        wane_scheduler_get_state(scheduler, &state);
        assert_int_equal(state.reply_tokens, 77);
        assert_int_equal(state.engine_rows, 77);
        assert_int_equal(state.completed, 1);
        if (draft == WANE_DRAFT_ALWAYS) assert_true(state.engine_calls < 60);
        wane_scheduler_free(scheduler);
        wane_model_free(model);
    }
}

/* -------------------------------------------------------------- several at once */

static void test_neighbours(void **unused) {
    (void)unused;
    enum { COUNT = 6 };
    static struct seen off[COUNT], on[COUNT], touchy[COUNT];
    static struct seen *const all[3] = {off, on, touchy};
    static const char *const prompts[COUNT] = {"abcdabcd beat",
                                               "the cat sat on the mat; the cat copy",
                                               "something of the fixed language",
                                               "abcabcabcabc fail",
                                               "the cat sat on short",
                                               "copy the cat sat on the mat and"};
    for (int draft = 0; draft < 3; draft++) {
        wane_model *model = model_of(script_of(4), draft ? WANE_DRAFT_ALWAYS : WANE_DRAFT_OFF, false);
        wane_scheduler_options options = quick_options();
        wane_scheduler *scheduler;
        wane_ticket *ticket[COUNT];
        model->drafts.touchy = draft == 2;
        wane_error error = {0};
        assert_int_equal(wane_scheduler_new(model, &options, &scheduler, &error), WANE_OK);
        for (int i = 0; i < COUNT; i++) {
            wane_generation g = plain(90);
            g.sampling.temperature = i % 2 ? 0.6f : 0;
            g.no_draft = i == 5;
            ticket[i] = submit(scheduler, prompts[i], &g);
        }
        for (int i = 0; i < COUNT; i++) read_ticket(ticket[i], &all[draft][i]);
        wane_scheduler_free(scheduler);
        assert_true(length_of(model, 0) == 0);
        if (draft == 1) assert_true(state_of(model).blocks > 3);
        for (int region = 0; draft == 2 && region < WANE__AHEAD_REGIONS; region++)
            assert_int_equal(model->drafts.proof[1][region].proven, 0); /* none beside others */
        wane_model_free(model);
    }
    for (int i = 0; i < COUNT; i++) assert_same(&off[i], &on[i]);
    for (int i = 0; i < COUNT; i++) assert_same(&off[i], &touchy[i]);
    assert_int_equal(on[3].code, WANE_EENGINE);
    assert_int_equal(on[5].drafted, 0);
}

/* Clients that leave in the middle of blocks: slots come free, and those beside them do not notice. */
static void test_cancelled_in_a_block(void **unused) {
    (void)unused;
    static struct seen off, on;
    wane_generation g = plain(120);
    wane_model *model = model_of(script_of(2), WANE_DRAFT_OFF, false);
    by_scheduler(model, "abcdabcd beat", &g, &off);
    wane_model_free(model);
    model = model_of(script_of(2), WANE_DRAFT_ALWAYS, false);
    wane_scheduler_options options = quick_options();
    wane_scheduler *scheduler;
    wane_error error = {0};
    assert_int_equal(wane_scheduler_new(model, &options, &scheduler, &error), WANE_OK);
    for (int round = 0; round < 20; round++) {
        wane_ticket *stays = submit(scheduler, "abcdabcd beat", &g);
        wane_ticket *leaves = submit(scheduler, "the cat sat on the mat; the cat copy", &g);
        wane_event event;
        bool ended = false;
        for (int i = 0; i < 2 + round && !ended; i++)
            assert_int_equal(wane_ticket_next(leaves, 20000, &event, &ended, &error), WANE_OK);
        wane_ticket_free(leaves);
        read_ticket(stays, &on);
        on.length = off.length;
        assert_same(&off, &on);
    }
    wane_scheduler_state state;
    wane_scheduler_stop(scheduler, 1000);
    wane_scheduler_get_state(scheduler, &state);
    assert_int_equal(state.accepted, state.completed + state.cancelled);
    wane_scheduler_free(scheduler);
    length_of(model, 0);
    wane_model_free(model);
}

/* A session interrupted in the middle of a block, at each of its tokens: the next reply is as on a fresh one. */
static void test_interrupted_in_a_block(void **unused) {
    (void)unused;
    static struct seen off, on;
    wane_generation g = plain(100);
    wane_model *model = model_of(script_of(1), WANE_DRAFT_ALWAYS, false);
    by_session(model, "abcdabcd beat", &g, &off);
    for (int after = 10; after < 60; after++) {
        wane_session *session;
        wane_error error = {0};
        wane_event event = {0};
        int32_t tokens[MOST];
        assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
        assert_int_equal(wane_session_start(session, tokens, prompt_of("abcdabcd beat", tokens), &g, &error),
                         WANE_OK);
        for (int i = 0; i < after; i++) assert_int_equal(wane_session_next(session, &event, &error), WANE_OK);
        wane_session_interrupt(session);
        assert_int_equal(wane_session_next(session, &event, &error), WANE_ECANCELLED);
        int held = length_of(model, 0); /* prompt and tokens, but for the last one at most */
        assert_in_range(held, 13 + after - 1, 13 + after);
        memset(&on, 0, sizeof on);
        assert_int_equal(wane_session_start(session, tokens, prompt_of("abcdabcd beat", tokens), &g, &error),
                         WANE_OK);
        while (event.kind != WANE_EVENT_END) {
            assert_int_equal(wane_session_next(session, &event, &error), WANE_OK);
            see(&on, &event);
        }
        on.length = length_of(model, 0);
        assert_same(&off, &on);
        wane_session_free(session);
    }
    wane_model_free(model);
}

/* --------------------------------------------------------------------- failures */

/* A block that the engine cannot decode is no failure: it goes on one by one, and fails where it fails without drafts. */
static void test_a_block_fails(void **unused) {
    (void)unused;
    static struct seen off, on, served;
    wane_generation g = plain(150);
    wane_model *without = model_of(script_of(1), WANE_DRAFT_OFF, false);
    wane_model *with = model_of(script_of(1), WANE_DRAFT_ALWAYS, false);
    by_session(without, "xyzxyz fail", &g, &off);
    by_session(with, "xyzxyz fail", &g, &on);
    assert_int_equal(off.code, WANE_EENGINE);
    assert_int_equal(off.tokens, 57);
    assert_same(&off, &on);
    uint64_t failures = state_of(with).failures;
    assert_true(failures > 0);
    by_scheduler(with, "xyzxyz fail", &g, &served);
    served.length = off.length; /* the scheduler forgets what failed */
    assert_same(&off, &served);
    assert_true(state_of(with).failures > failures);
    wane_model_free(with);
    wane_model_free(without);
}

/* A model of an engine whose blocks have other floats than single tokens. */
static wane_model *blurred(int draft) {
    struct wane__script script = script_of(1);
    script.blurred = true;
    return model_of(script, draft, false);
}

/* Where blocks have other floats, none counts: found by the rehearsal, said, and the reply is the single tokens'. */
static void test_other_floats(void **unused) {
    (void)unused;
    static struct seen off, on, served;
    wane_generation g = plain(150);
    wane_model *without = blurred(WANE_DRAFT_OFF), *with = blurred(WANE_DRAFT_ALWAYS);
    by_session(without, "abcdabcd beat", &g, &off);
    by_session(with, "abcdabcd beat", &g, &on);
    by_scheduler(with, "abcdabcd beat", &g, &served);
    assert_same(&off, &on);
    assert_same(&off, &served);
    wane_draft_state state = state_of(with);
    assert_int_equal(state.blocks, 0);
    assert_int_equal(state.differing, WANE__AHEAD_CLASSES); /* each class of widths once */
    assert_int_equal(state.rehearsals, WANE__AHEAD_CLASSES);
    wane_model_free(with);
    wane_model_free(without);
}

/* With --shadow 1 every block is rehearsed and none counts. */
static void test_shadow(void **unused) {
    (void)unused;
    static struct seen off, on;
    wane_generation g = plain(150);
    wane_model *model = model_of(script_of(1), WANE_DRAFT_ALWAYS, false);
    by_session(model, "abcdabcd beat", &g, &off);
    uint64_t blocks = state_of(model).blocks;
    assert_true(blocks > 0);
    wane__rows_set_shadow(&model->rows, 1);
    by_session(model, "abcdabcd beat", &g, &on);
    assert_same(&off, &on);
    assert_int_equal(state_of(model).blocks, blocks);
    assert_true(state_of(model).rehearsals > 2);
    assert_int_equal(state_of(model).differing, 0);
    wane_divergence_state d;
    wane_model_get_divergences(model, WANE_WATCHED_DRAFT, &d);
    assert_true(d.checks > 2 && d.divergences == 0 && !d.off);
    wane_model_free(model);
}

/* Blocks that were proven and are not the same any more: kinds are barred one by one, and after three there are no drafts. */
static void test_divergence(void **unused) {
    (void)unused;
    static struct seen off, on;
    wane_generation g = plain(150);
    wane_divergence_state d;
    wane_model *without = blurred(WANE_DRAFT_OFF), *with = blurred(WANE_DRAFT_ALWAYS);
    for (int c = 0; c < 2; c++)
        for (int r = 0; r < WANE__AHEAD_REGIONS; r++) with->drafts.proof[c][r].proven = WANE__AHEAD_CLASSES;
    wane__rows_set_shadow(&with->rows, 1);
    by_session(without, "abcdabcd beat", &g, &off);
    by_session(with, "abcdabcd beat", &g, &on);
    assert_same(&off, &on);
    wane_model_get_divergences(with, WANE_WATCHED_DRAFT, &d);
    assert_true(d.off && d.divergences == WANE__AHEAD_CLASSES && d.checks == WANE__AHEAD_CLASSES);
    assert_false(state_of(with).on);
    assert_non_null(strstr(state_of(with).reason, "not the same"));
    uint64_t rehearsals = state_of(with).rehearsals;
    by_session(with, "abcdabcd beat", &g, &on);
    assert_same(&off, &on);
    assert_int_equal(state_of(with).rehearsals, rehearsals);
    assert_int_equal(wane_model_arm(with, WANE_WATCHED_DRAFT, NULL), WANE_OK);
    assert_true(state_of(with).on && state_of(with).reason[0] == '\0');
    wane_model_free(with);
    wane_model_free(without);
}

/* --------------------------------------------------------------------- practice */

/* What the first reply would have rehearsed was rehearsed before it; nothing of that is left in the engine, or counts as a reply's. */
static void test_practice(void **unused) {
    (void)unused;
    static struct seen off, on;
    wane_generation g = plain(120);
    wane_model *without = model_of(script_of(1), WANE_DRAFT_OFF, true);
    wane_model *with = model_of(script_of(1), WANE_DRAFT_ALWAYS, true);
    wane__drafts_practise(&without->drafts, 60);
    assert_int_equal(state_of(without).rehearsals, 0);
    wane__drafts_practise(&with->drafts, 60);
    const struct wane__draft_pace *pace = &with->drafts.pace;
    assert_int_equal(with->drafts.proof[0][0].proven, WANE__AHEAD_CLASSES);
    assert_int_equal(state_of(with).rehearsals, WANE__AHEAD_CLASSES);
    assert_int_equal(state_of(with).differing, 0);
    assert_int_equal(length_of(with, 0), 0);
    wane_head_state head;
    wane_model_get_head_state(with, &head);
    assert_int_equal(head.rows, 0);
    for (int rows = 1; rows <= WANE__BLOCK_MOST; rows++) {
        assert_true(pace->body[rows] > 0 && pace->cost[rows] <= 0);
        assert_true(wane__draft_pace_cost(pace, rows) >= wane__draft_pace_cost(pace, 1) * 0.999);
    }
    by_session(without, "abcdabcd beat", &g, &off);
    by_session(with, "abcdabcd beat", &g, &on);
    assert_same(&off, &on);
    assert_true(on.drafted > 0);
    assert_int_equal(state_of(with).rehearsals, WANE__AHEAD_CLASSES);
    wane_model_free(with);
    wane_model_free(without);
}

static void test_practice_finds_other_floats(void **unused) {
    (void)unused;
    static struct seen off, on;
    wane_generation g = plain(120);
    wane_model *without = blurred(WANE_DRAFT_OFF), *with = blurred(WANE_DRAFT_ALWAYS);
    wane__drafts_practise(&with->drafts, 60);
    assert_int_equal(with->drafts.proof[0][0].barred, 1);
    assert_int_equal(state_of(with).differing, 1);
    by_session(without, "abcdabcd beat", &g, &off);
    by_session(with, "abcdabcd beat", &g, &on);
    assert_same(&off, &on);
    assert_int_equal(state_of(with).blocks, 0);
    wane_model_free(with);
    wane_model_free(without);
}

/* What the clock does not allow is left to the replies. */
static void test_practice_in_no_time(void **unused) {
    (void)unused;
    wane_model *model = model_of(script_of(1), WANE_DRAFT_AUTO, false);
    wane__drafts_practise(&model->drafts, 0);
    assert_int_equal(state_of(model).rehearsals, 0);
    wane__drafts_practise(&model->drafts, 1e-9);
    assert_int_equal(model->drafts.proof[0][0].proven, 1);
    assert_int_equal(state_of(model).rehearsals, 1);
    wane_model_free(model);

    struct wane__script narrow = script_of(1); /* a batch that holds no block of the widest class */
    narrow.batch = 12;
    model = model_of(narrow, WANE_DRAFT_AUTO, false);
    wane__drafts_practise(&model->drafts, 60);
    assert_int_equal(model->drafts.proof[0][0].proven, 2);
    assert_int_equal(length_of(model, 0), 0);
    wane_model_free(model);
}

/* ------------------------------------------------------------------------ modes */

static void test_modes(void **unused) {
    (void)unused;
    static struct seen off, on;
    wane_error error = {0};
    wane_generation g = plain(100);
    struct wane__script script = script_of(1);
    script.recurrent = true;
    wane_model *model = model_of(script, WANE_DRAFT_AUTO, false);
    assert_false(state_of(model).on);
    assert_non_null(strstr(state_of(model).reason, "recurrent"));
    assert_int_equal(wane_model_set_draft(model, WANE_DRAFT_AUTO, &error), WANE_EUNSUPPORTED);
    by_session(model, "abcdabcd beat", &g, &on);
    assert_int_equal(on.code, WANE_OK);
    assert_int_equal(on.drafted, 0);
    wane_model_free(model);

    model = model_of(script_of(1), WANE_DRAFT_ALWAYS, false);
    by_session(model, "abcdabcd beat", &g, &on);
    g.no_draft = true;
    uint64_t blocks = state_of(model).blocks;
    by_session(model, "abcdabcd beat", &g, &off);
    assert_same(&off, &on);
    assert_int_equal(state_of(model).blocks, blocks);
    assert_int_equal(wane_model_set_draft(model, 9, &error), WANE_EINVAL);
    assert_int_equal(wane_model_set_draft(model, WANE_DRAFT_OFF, &error), WANE_OK);
    assert_false(state_of(model).on);
    g.no_draft = false;
    by_session(model, "abcdabcd beat", &g, &off);
    assert_int_equal(off.drafted, 0);
    wane_session *session;
    assert_int_equal(wane_session_new(model, &session, &error), WANE_OK);
    assert_int_equal(wane_model_set_draft(model, WANE_DRAFT_AUTO, &error), WANE_EBUSY);
    wane_session_free(session);
    wane_model_options options;
    wane_model_options_init(&options);
    options.draft_most = 64;
    assert_int_equal(wane__drafts_open(&model->drafts, &options, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "draft_most"));
    options.draft_most = 1;
    options.draft = -1;
    assert_int_equal(wane__drafts_open(&model->drafts, &options, &error), WANE_EINVAL);
    wane_model_free(model);
}

/* What one tenant's replies were is proposed to that tenant, and to nobody else. */
static void test_tenants(void **unused) {
    (void)unused;
    static struct seen first, second;
    wane_model *model = model_of(script_of(1), WANE_DRAFT_ALWAYS, false);
    wane_generation g = plain(60);
    wane_scheduler_options options = quick_options();
    wane_scheduler *scheduler;
    wane_error error = {0};
    enum { POOL = 2 };
    assert_string_equal(wane_draft_source_name(POOL), "pool");
    assert_null(wane_draft_source_name(WANE_DRAFT_SOURCES));
    assert_int_equal(wane_scheduler_new(model, &options, &scheduler, &error), WANE_OK);
    g.tenant = "a";
    read_ticket(submit(scheduler, "now copy", &g), &first);
    g.tenant = "b";
    read_ticket(submit(scheduler, "now copy", &g), &second);
    assert_int_equal(state_of(model).proposed[POOL], 0);
    g.tenant = "a";
    read_ticket(submit(scheduler, "now copy", &g), &second);
    assert_true(state_of(model).accepted[POOL] > 0);
    first.length = second.length = 0;
    assert_same(&first, &second);
    assert_true(state_of(model).pool_tokens >= 120);
    wane_scheduler_free(scheduler);
    wane_model_free(model);
}

/* An engine that puts blocks where they are not expected: each one attends to another part of the cache than the last call. */
static struct wane__engine_ops odd_ops;
static int (*true_decode)(struct wane__engine *engine, const struct wane__item *items, int count,
                          wane_error *error);
static int odd_attended, odd_decodes;

static int odd_decode(struct wane__engine *engine, const struct wane__item *items, int count,
                      wane_error *error) {
    int wanted = 0;
    for (int i = 0; i < count; i++) wanted += items[i].wanted;
    if (wanted > 1) odd_attended = odd_attended == 300 ? 2000 : 300;
    if (++odd_decodes > 5000) fail_msg("the reply does not go on");
    return true_decode(engine, items, count, error);
}

static int attended_oddly(struct wane__engine *engine) {
    (void)engine;
    return odd_attended;
}

static void test_blocks_that_never_stand(void **unused) {
    (void)unused;
    static struct seen with, without;
    for (int way = 0; way < 2; way++) {
        wane_generation g = greedy(100);
        wane_model *model = model_of(script_of(2), WANE_DRAFT_OFF, false);
        way == 0 ? by_session(model, "copy", &g, &without) : by_scheduler(model, "copy", &g, &without);
        wane_model_free(model);
        model = model_of(script_of(2), WANE_DRAFT_ALWAYS, false);
        odd_ops = *model->engine->ops;
        true_decode = odd_ops.decode;
        odd_ops.decode = odd_decode;
        odd_ops.attended = attended_oddly;
        odd_attended = 300;
        odd_decodes = 0;
        model->engine->ops = &odd_ops;
        for (int c = 0; c < 2; c++)
            for (int r = 0; r < WANE__AHEAD_REGIONS; r++)
                model->drafts.proof[c][r].proven = WANE__AHEAD_CLASSES;
        way == 0 ? by_session(model, "copy", &g, &with) : by_scheduler(model, "copy", &g, &with);
        assert_int_equal(with.code, WANE_OK);
        assert_int_equal(with.tokens, without.tokens);
        assert_memory_equal(with.id, without.id, (size_t)with.tokens * sizeof *with.id);
        wane_model_free(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_that_never_stand),
        cmocka_unit_test(test_every_sampler),
        cmocka_unit_test(test_a_penalty_rejects_the_second),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_cancelled_in_a_block),
        cmocka_unit_test(test_interrupted_in_a_block),
        cmocka_unit_test(test_a_block_fails),
        cmocka_unit_test(test_other_floats),
        cmocka_unit_test(test_shadow),
        cmocka_unit_test(test_divergence),
        cmocka_unit_test(test_practice),
        cmocka_unit_test(test_practice_finds_other_floats),
        cmocka_unit_test(test_practice_in_no_time),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_tenants),
    };
    return cmocka_run_group_tests(tests, make, sweep);
}
