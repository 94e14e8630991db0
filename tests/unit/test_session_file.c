/*
 * test_session_file.c - sessions in files, on the scripted engine: what follows after a load is what would have followed; what a file
 * says; and what is refused, with the session as it was or empty.
 */
#include "test_scheduler_rig.h"

#include "core/bytes.h"
#include "core/file.h"
#include "core/memory.h"
#include "session_form.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static char folder[] = "/tmp/wane-session-XXXXXX", path[64];
static const char first[] = "tell me of the sea, of the sea, of the sea",
                  second[] = " and of the land, of the land";

static int make(void **unused) {
    (void)unused;
    if (mkdtemp(folder) == NULL) return 1;
    snprintf(path, sizeof path, "%s/s", folder);
    return 0;
}

static int sweep(void **unused) {
    (void)unused;
    unlink(path);
    return rmdir(folder);
}

struct desk {
    struct wane__engine *engine;
    wane_model *model;
    wane_session *session;
};

static struct desk desk_of(struct wane__script script, int draft) {
    struct desk desk = {0};
    wane_error error = {0};
    wane_model_options options;
    if (script.batch == 0) script.batch = 32;
    wane_model_options_init(&options);
    options.draft = draft;
    assert_int_equal(wane__script_load(&script, NULL, &desk.engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(desk.engine, NULL, NULL, &desk.model, &error), WANE_OK);
    assert_int_equal(wane__drafts_open(&desk.model->drafts, &options, &error), WANE_OK);
    assert_int_equal(wane_session_new(desk.model, &desk.session, &error), WANE_OK);
    return desk;
}

static void desk_free(struct desk *desk) {
    struct wane__script_counts counts;
    wane__script_get_counts(desk->engine, &counts);
    assert_int_equal(counts.violations, 0);
    wane_session_free(desk->session);
    wane_model_free(desk->model);
}

static wane_generation sampled(int kind) {
    wane_generation g;
    wane_generation_init(&g);
    g.max_tokens = 60;
    g.sampling.temperature = kind == 0 ? 0 : 1.5f;
    g.sampling.seeded = true;
    g.sampling.seed = 11;
    if (kind == 2) g.sampling.repeat_penalty = 1.1f;
    return g;
}

/* All so far, `text` behind it, and what was answered to that; `most` events. Returns the tokens reused. */
static int turn(struct desk *desk, wane_tokens *all, const char *text, const wane_generation *g, int most) {
    wane_event event = {0};
    wane_error error = {0};
    int reused = 0;
    for (; *text != '\0'; text++) {
        all->id = realloc(all->id, (all->count + 1) * sizeof *all->id);
        all->id[all->count++] = (unsigned char)*text;
    }
    if (wane_session_start(desk->session, all->id, all->count, g, &error) != WANE_OK)
        fail_msg("%s", error.text);
    for (int i = 0; i < most && event.kind != WANE_EVENT_END; i++) {
        if (wane_session_next(desk->session, &event, &error) != WANE_OK) fail_msg("%s", error.text);
        if (event.kind == WANE_EVENT_END) reused = event.reused_tokens;
        if (event.kind != WANE_EVENT_TEXT) continue;
        all->id = realloc(all->id, (all->count + 1) * sizeof *all->id);
        all->id[all->count++] = event.token;
    }
    return reused;
}

static uint64_t items_of(const struct desk *desk) {
    struct wane__script_counts counts;
    wane__script_get_counts(desk->engine, &counts);
    return counts.items;
}

static void keep(struct desk *desk) {
    wane_error error = {0};
    if (wane_session_save(desk->session, path, NULL, 0, &error) != WANE_OK) fail_msg("%s", error.text);
}

/* What a check without loading refuses, loading refuses likewise, and what loads was found good. */
static int load(struct desk *desk, wane_error *error) {
    wane_session_file file;
    wane_error why = {0};
    int checked = wane_session_file_check(path, desk->model, &file, &why);
    if (checked == WANE_OK) wane_session_file_free(&file);
    int status = wane_session_load(desk->session, path, NULL, error);
    if (checked != WANE_OK) {
        assert_int_equal(status, checked);
        assert_string_equal(error->text, why.text);
    }
    return status;
}

static void must_load(struct desk *desk) {
    wane_error error = {0};
    if (load(desk, &error) != WANE_OK) fail_msg("%s", error.text);
}

/* Two turns in one process, and with a file in between: the same tokens, for the same work. */
static void test_goes_on(void **unused) {
    (void)unused;
    for (int draft = WANE_DRAFT_OFF; draft <= WANE_DRAFT_ALWAYS; draft++) {
        for (int kind = 0; kind < 3; kind++) {
            for (int most = 0; most < 1000; most = most * 3 + 7) { /* 0: nothing but the prompt is in */
                wane_generation g = sampled(kind);
                wane_tokens live = {0}, kept = {0};
                struct desk desk = desk_of((struct wane__script){.linear = kind == 1}, draft);
                turn(&desk, &live, first, &g, most);
                keep(&desk); /* whatever it does to the session, it does to both */
                uint64_t before = items_of(&desk);
                int reused = turn(&desk, &live, second, &g, 1000);
                uint64_t work = items_of(&desk) - before;
                desk_free(&desk);

                desk = desk_of((struct wane__script){.linear = kind == 1}, draft);
                turn(&desk, &kept, first, &g, most);
                keep(&desk);
                desk_free(&desk);
                desk = desk_of((struct wane__script){.linear = kind == 1}, draft);
                must_load(&desk);
                assert_int_equal(items_of(&desk), 0);
                int again = turn(&desk, &kept, second, &g, 1000);
                assert_int_equal(again, reused);
                assert_true(reused >= (int)sizeof first - 1);
                if (draft == WANE_DRAFT_OFF) assert_int_equal(items_of(&desk), work);
                assert_int_equal(kept.count, live.count);
                assert_memory_equal(kept.id, live.id, live.count * sizeof *live.id);
                desk_free(&desk);
                free(live.id);
                free(kept.id);
            }
        }
    }
}

static void test_what_it_says(void **unused) {
    (void)unused;
    struct desk desk = desk_of((struct wane__script){0}, WANE_DRAFT_OFF);
    static const char odd[] = "a \"quoted\"\nline, \xe4\xb8\xad\xe6\x96\x87, and a zero \0 in it";
    const wane_message messages[] = {{"system", "", 0}, {"user", odd, sizeof odd - 1}};
    wane_session_file file;
    wane_error error = {0};
    wane_generation g = sampled(0);
    wane_tokens all = {0};
    struct stat facts;
    turn(&desk, &all, first, &g, 1000);
    assert_true(wane_session_tau(desk.session) <= 0 && wane_session_flags(desk.session) == 0);
    assert_int_equal(wane_session_set_tau(desk.session, -0.1, &error), WANE_EINVAL);
    assert_int_equal(wane_session_set_tau(desk.session, (double)NAN, &error), WANE_EINVAL);
    assert_int_equal(wane_session_set_flags(desk.session, 16, &error), WANE_EINVAL);
    assert_int_equal(wane_session_set_tau(desk.session, 0.8125, &error), WANE_OK);
    assert_int_equal(wane_session_set_flags(desk.session, WANE_SFCL_VOTED | WANE_SFCL_CHANGED, &error),
                     WANE_OK);
    assert_int_equal(wane_session_save(desk.session, path, messages, 2, &error), WANE_OK);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(wane_session_file_info(path, &file, &error), WANE_OK);
    assert_int_equal(file.version, 1);
    assert_string_equal(file.engine, "script");
    assert_int_equal(strlen(file.model), 32);
    assert_true(file.tau >= 0.8125 && file.tau <= 0.8125);
    assert_int_equal(file.sfcl_flags, WANE_SFCL_VOTED | WANE_SFCL_CHANGED);
    assert_int_equal(file.tokens, all.count);
    assert_int_equal(file.held, all.count - 1); /* the last one was not fed */
    assert_int_equal(file.state_bytes, 4 * (all.count - 1));
    assert_int_equal(file.bytes, facts.st_size);
    assert_int_equal(file.message_count, 2);
    assert_string_equal(file.messages[1].role, "user");
    assert_int_equal(file.messages[1].content_size, sizeof odd - 1);
    assert_memory_equal(file.messages[1].content, odd, sizeof odd);
    assert_int_equal(file.messages[0].content_size, 0);
    wane_session_file_free(&file);
    desk_free(&desk);
    desk = desk_of((struct wane__script){0}, WANE_DRAFT_OFF);
    assert_int_equal(wane_session_load(desk.session, path, &file, &error), WANE_OK);
    assert_true(file.same_settings);
    assert_int_equal(wane_session_flags(desk.session),
                     WANE_SFCL_VOTED | WANE_SFCL_CHANGED | WANE_SFCL_LOADED);
    assert_true(wane_session_tau(desk.session) > 0.8);
    assert_int_equal(wane_session_save(desk.session, path, file.messages, file.message_count, &error),
                     WANE_OK);
    wane_session_file_free(&file);
    assert_int_equal(wane_session_file_info(path, &file, &error), WANE_OK);
    assert_int_equal(file.sfcl_flags & WANE_SFCL_LOADED, WANE_SFCL_LOADED);
    wane_session_file_free(&file);
    snprintf(desk.model->settings, sizeof desk.model->settings, "batch 7");
    assert_int_equal(wane_session_load(desk.session, path, &file, &error), WANE_OK);
    assert_false(file.same_settings);
    wane_session_file_free(&file);
    const wane_message wrong = {"user", "\xff", 1};
    unlink(path);
    assert_int_equal(wane_session_save(desk.session, path, &wrong, 1, &error), WANE_EINVAL);
    assert_int_equal(stat(path, &facts), -1);
    assert_int_equal(load(&desk, &error), WANE_ENOENT);
    free(all.id);
    desk_free(&desk);
}

/* A reply under way ends where it is; nothing at all can be kept, too. */
static void test_rest(void **unused) {
    (void)unused;
    struct desk desk = desk_of((struct wane__script){0}, WANE_DRAFT_ALWAYS);
    wane_generation g = sampled(0);
    wane_tokens all = {0};
    wane_event event;
    wane_error error = {0};
    wane_session_file file;
    keep(&desk);
    must_load(&desk);
    turn(&desk, &all, first, &g, 20);
    keep(&desk);
    assert_int_equal(wane_session_next(desk.session, &event, &error), WANE_EINVAL);
    assert_int_equal(wane_session_file_info(path, &file, &error), WANE_OK);
    assert_int_equal(file.tokens, sizeof first - 1 + 20);
    assert_true(file.held >= file.tokens - 1 - 20 && file.held <= file.tokens);
    wane_session_file_free(&file);
    turn(&desk, &all, second, &g, 1000);
    free(all.id);
    desk_free(&desk);
}

/* ---- refused ------------------------------------------------------------------------------------------------------ */

static unsigned char *bytes;
static size_t size;

static void read_bytes(void) {
    wane_error error = {0};
    char *text;
    wane__free(bytes);
    assert_int_equal(wane__file_read(path, "x", 1 << 24, &text, &size, &error), WANE_OK);
    bytes = (unsigned char *)text;
}

static void write_bytes(const unsigned char *from, size_t count) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(from, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void seal(unsigned char *copy, size_t count) {
    wane__put(copy + count - 8, XXH3_64bits(copy, count - 8), 8);
}

static void refuse(struct desk *desk, const unsigned char *copy, size_t count, const char *words) {
    wane_error error = {0};
    wane_session_file file;
    write_bytes(copy, count);
    assert_int_equal(load(desk, &error), WANE_EFORMAT);
    if (strstr(error.text, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.text, words);
    int code = wane_session_file_info(path, &file, &error);
    assert_true(code == WANE_EFORMAT || code == WANE_OK);
    wane_session_file_free(&file);
}

static void test_damage(void **unused) {
    (void)unused;
    struct desk desk = desk_of((struct wane__script){0}, WANE_DRAFT_OFF);
    const wane_message message = {"user", "hello", 5};
    wane_generation g = sampled(0);
    wane_tokens all = {0};
    wane_error error = {0};
    g.max_tokens = 3;
    turn(&desk, &all, "short", &g, 1000);
    assert_int_equal(wane_session_save(desk.session, path, &message, 1, &error), WANE_OK);
    read_bytes();
    unsigned char *copy = calloc(1, size + 16);
    for (size_t cut = 0; cut < size; cut++) {
        memcpy(copy, bytes, size);
        refuse(&desk, copy, cut, path);
        if (cut < WANE__SESSION_HEAD + WANE__SESSION_TAIL) continue;
        seal(copy, cut);
        refuse(&desk, copy, cut, "damaged");
    }
    for (size_t at = 0; at < size; at++) {
        memcpy(copy, bytes, size);
        copy[at] ^= 0x10;
        refuse(&desk, copy, size, path);
    }
    static const struct {
        size_t at;
        unsigned char to;
        const char *words;
    } wrong[] = {
        {8, 2, "version 2"},
        {16, 0, "another layout"},
        {12, 0, "another layout"},
        {39, 0xff, "threshold"},
        {39, 0x80, "threshold"},
        {40, 16, "flags"},
        {47, 1, "flags"},
        {48, 'G', "no words"},
        {80, 0xff, "no words"},
        {90, 'x', "no words"},
        {193, 0, "token"},
        {195, 0x80, "vocabulary"},
        {196, 200, "make no"},
        {199, 0xff, "make no"},
        {200, 50, "make no"},
        {204, 1, "size"},
        {211, 1, "size"},
        {223, 0x80, "size"},
        {WANE__SESSION_HEAD, '{', "conversation"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(copy, bytes, size);
        if (wrong[i].at == 39) memset(copy + 32, wrong[i].to == 0x80 ? 1 : 0xff, 7);
        if (wrong[i].at == 193) copy[192] = 64;
        if (wrong[i].at == 196) wane__put(copy + 200, 201, 4);
        copy[wrong[i].at] = wrong[i].to;
        seal(copy, size);
        refuse(&desk, copy, size, wrong[i].words);
    }
    /* Nothing was taken: the session is as it was. */
    assert_int_equal(wane_session_flags(desk.session), 0);
    int reused = turn(&desk, &all, second, &g, 1000);
    assert_true(reused > 5);
    free(copy);
    free(all.id);
    desk_free(&desk);
}

/* Right in itself, but the engine does not take its state: the session is empty, and usable. */
static void test_a_state_that_is_none(void **unused) {
    (void)unused;
    struct desk desk = desk_of((struct wane__script){0}, WANE_DRAFT_OFF);
    wane_generation g = sampled(0);
    wane_tokens all = {0};
    wane_error error = {0};
    turn(&desk, &all, first, &g, 1000);
    keep(&desk);
    read_bytes();
    wane__put(bytes + size - 12, 384, 4); /* beyond the vocabulary */
    seal(bytes, size);
    write_bytes(bytes, size);
    assert_int_equal(load(&desk, &error), WANE_EFORMAT);
    assert_non_null(strstr(error.text, "cannot go on"));
    assert_int_equal(turn(&desk, &all, second, &g, 1000), 0);
    free(all.id);
    desk_free(&desk);
}

static void foreign(struct desk *desk, int code, const char *words) {
    wane_error error = {0};
    assert_int_equal(load(desk, &error), code);
    if (strstr(error.text, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.text, words);
    assert_int_equal(wane_session_flags(desk->session), 0);
    desk_free(desk);
}

static void test_foreign(void **unused) {
    (void)unused;
    static const char *const pieces[] = {"piece"};
    struct desk desk = desk_of((struct wane__script){0}, WANE_DRAFT_OFF);
    wane_generation g = sampled(0);
    wane_tokens all = {0};
    wane_error error = {0};
    turn(&desk, &all, first, &g, 1000);
    keep(&desk);
    desk_free(&desk);
    desk = desk_of((struct wane__script){.pieces = pieces, .piece_count = 1}, WANE_DRAFT_OFF);
    foreign(&desk, WANE_EUNSUPPORTED, "another model");
    desk = desk_of((struct wane__script){.context = 64}, WANE_DRAFT_OFF);
    foreign(&desk, WANE_ECONTEXT, "--context");
    desk = desk_of((struct wane__script){0}, WANE_DRAFT_OFF);
    snprintf(desk.model->kv_type_v, sizeof desk.model->kv_type_v, "q8_0");
    foreign(&desk, WANE_EUNSUPPORTED, "--kv-type-v");
    desk = desk_of((struct wane__script){0}, WANE_DRAFT_OFF);
    desk.engine->facts.engine = "script 2";
    foreign(&desk, WANE_EUNSUPPORTED, "of the engine script;");
    desk = desk_of((struct wane__script){0}, WANE_DRAFT_OFF);
    const struct wane__engine_ops *whole = desk.engine->ops;
    struct wane__engine_ops without = *whole;
    without.state_save = NULL;
    without.state_load = NULL;
    desk.engine->ops = &without;
    assert_int_equal(wane_session_save(desk.session, path, NULL, 0, &error), WANE_EUNSUPPORTED);
    assert_int_equal(load(&desk, &error), WANE_EUNSUPPORTED);
    desk.engine->ops = whole;
    desk_free(&desk);
    free(all.id);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_what_it_says),
        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_a_state_that_is_none),
        cmocka_unit_test(test_foreign),
    };
    int failed = cmocka_run_group_tests(tests, make, sweep);
    wane__free(bytes);
    return failed;
}
