/*
 * test_trace_write.c - the writer: what goes in comes out; files follow one another; a full queue drops and counts; what was
 * synced survives a kill; what must not be recorded is not.
 */
#include "unit/trace_rig.h"

#include "core/memory.h"
#include "table/redact.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static struct wane__trace_writer *open_writer(const struct wane__trace_write_options *options) {
    struct wane__trace_writer *w = NULL;
    wane_error error = {0};
    if (wane__trace_write_open(options, &rig_origin, &w, &error) != WANE_OK) fail_msg("%s", error.text);
    return w;
}

static struct wane__trace_request request_of(const char *id, const int32_t *prompt, size_t count) {
    struct wane__trace_request r = {.kind = WANE__KIND_MULTI,
                                    .tenant = 9,
                                    .prompt = prompt,
                                    .prompt_count = count};
    snprintf(r.request, sizeof r.request, "%s", id);
    wane__sampling_defaults(&r.sampling);
    r.sampling.seeded = true;
    return r;
}

static struct wane__trace_end end_of(const char *id, int tokens) {
    struct wane__trace_end end = {.finish = "end", .tokens = tokens, .ms = 1.5};
    snprintf(end.request, sizeof end.request, "%s", id);
    return end;
}

static void write_reply(struct wane__trace_writer *w, const char *id, int tokens, uint64_t seed) {
    static const int32_t prompt[] = {4, 5, 6, 7};
    struct wane__trace_request r = request_of(id, prompt, 4);
    assert_true(wane__trace_write_request(w, &r));
    for (int i = 0; i < tokens; i++) {
        struct wane__trace_token t = rig_token(id, 4, i, seed + (uint64_t)i);
        assert_true(wane__trace_write_token(w, &t, NULL));
    }
    struct wane__trace_end end = end_of(id, tokens);
    assert_true(wane__trace_write_end(w, &end));
}

/* Everything, in order, to the very bit, in both forms; and files for their owner alone. */
static void test_round_trip(void **state) {
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        struct rig_folder folder;
        rig_folder_make(&folder);
        char inner[100], path[400];
        snprintf(inner, sizeof inner, "%.40s/made", folder.path);
        struct wane__trace_write_options options = {.folder = inner, .plain = plain};
        struct wane__trace_writer *w = open_writer(&options);
        wane_bias bias = {3, -1.5f};
        int32_t prompt[] = {1, 2, 3};
        struct wane__trace_request r = request_of("one", prompt, 3);
        r.sampling.bias = &bias;
        r.sampling.bias_count = 1;
        r.stops[0] = "END";
        r.stops[1] = "\n";
        r.stop_count = 2;
        float *all = calloc(RIG_VOCAB, sizeof *all);
        for (int i = 0; i < RIG_VOCAB; i++) all[i] = rig_float((uint64_t)i);
        assert_true(wane__trace_write_request(w, &r));
        for (int i = 0; i < 200; i++) {
            struct wane__trace_token t = rig_token("one", 3, i, (uint64_t)i);
            assert_true(wane__trace_write_token(w, &t, i == 7 ? all : NULL));
        }
        struct wane__trace_end end = end_of("one", 200);
        assert_true(wane__trace_write_end(w, &end));
        wane__trace_write_flush(w);
        wane_recorder_state seen;
        wane__trace_write_get_state(w, &seen);
        assert_true(seen.requests == 1 && seen.tokens == 200 && seen.ends == 1);
        assert_true(seen.dropped_tokens == 0 && seen.bytes > 0 && seen.files == 1 && seen.waiting_bytes == 0);
        wane__trace_write_close(w);

        struct stat status;
        assert_int_equal(stat(inner, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0700);
        struct rig_folder made;
        snprintf(made.path, sizeof made.path, "%.60s", inner);
        assert_true(rig_file(&made, 0, path));
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);

        struct wane__trace_reader *reader = NULL;
        struct wane__trace_record record;
        struct wane__trace_read_options read = {.expected = &rig_origin, .want_all = true};
        const char *paths[] = {inner};
        wane_error error = {0};
        assert_int_equal(wane__trace_read_open(paths, 1, &read, &reader, &error), WANE_OK);
        int tokens = 0;
        while (wane__trace_read_next(reader, &record, &error) == WANE_OK && record.type != WANE__TRACE_DONE) {
            if (record.type == WANE__TRACE_REQUEST) {
                assert_int_equal(record.request->prompt_count, 3);
                assert_memory_equal(record.request->prompt, prompt, sizeof prompt);
                assert_string_equal(record.request->stops[0], "END");
                assert_string_equal(record.request->stops[1], "\n");
                assert_true(record.request->sampling.bias[0].bias == -1.5f);
            }
            if (record.type != WANE__TRACE_TOKEN) continue;
            struct wane__trace_token t = rig_token("one", 3, tokens, (uint64_t)tokens);
            rig_same_token(&t, record.token);
            assert_int_equal(record.all != NULL, tokens == 7);
            if (tokens == 7) assert_memory_equal(record.all, all, RIG_VOCAB * sizeof *all);
            tokens++;
        }
        assert_string_equal(error.text, "");
        assert_int_equal(tokens, 200);
        wane__trace_read_close(reader);
        free(all);
        rig_folder_remove(&made);
        rig_folder_remove(&folder);
    }
}

static void test_rotation(void **state) {
    (void)state;
    struct rig_folder folder;
    rig_folder_make(&folder);
    struct wane__trace_write_options options = {.folder = folder.path, .plain = true, .file_bytes = 3000};
    struct wane__trace_writer *w = open_writer(&options);
    for (int i = 0; i < 5; i++) {
        char id[20];
        snprintf(id, sizeof id, "r%d", i);
        write_reply(w, id, 6, (uint64_t)(10 * i));
        wane__trace_write_flush(w); /* where a file may end */
    }
    wane__trace_write_close(w);
    assert_int_equal(rig_count(&folder), 5);
    struct rig_seen seen = rig_read(folder.path, NULL);
    assert_true(seen.origins == 5 && seen.requests == 5 && seen.tokens == 30 && seen.ends == 5);
    assert_true(seen.errors == 0 && seen.counts.cut_tails == 0);

    /* Of those that are there, and of those to come, two are kept: the newest. */
    options.files = 2;
    w = open_writer(&options);
    write_reply(w, "last", 1, 0);
    wane__trace_write_close(w);
    assert_int_equal(rig_count(&folder), 2);
    char *text = rig_text(&folder);
    assert_non_null(strstr(text, "\"last\""));
    assert_non_null(strstr(text, "\"r4\""));
    assert_null(strstr(text, "\"r3\""));
    wane__free(text);

    /* Many writers in one moment, one after the other: the names are in their order still. */
    options.files = 2;
    for (int i = 0; i < 20; i++) {
        char id[20];
        snprintf(id, sizeof id, "w%02d", i);
        w = open_writer(&options);
        write_reply(w, id, 1, 0);
        wane__trace_write_close(w);
    }
    text = rig_text(&folder);
    for (int i = 0; i < 20; i++) {
        char id[20];
        snprintf(id, sizeof id, "\"w%02d\"", i);
        assert_true((strstr(text, id) != NULL) == (i >= 18));
    }
    wane__free(text);

    /* By age: a file that is old when it is synced is not gone on with. */
    options.files = 0;
    options.file_bytes = 0;
    options.file_seconds = 1e-9;
    w = open_writer(&options);
    write_reply(w, "old", 1, 0);
    wane__trace_write_flush(w);
    write_reply(w, "new", 1, 0);
    wane__trace_write_close(w);
    assert_int_equal(rig_count(&folder), 4);
    rig_folder_remove(&folder);
}

/* A writer that stands still until it is let go. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open, reached;
};

static void stand_still(void *user) {
    struct gate *gate = user;
    pthread_mutex_lock(&gate->lock);
    gate->reached = true;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open) pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void test_full_queue_drops_and_counts(void **state) {
    (void)state;
    struct rig_folder folder;
    rig_folder_make(&folder);
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false};
    struct wane__trace_write_options options = {.folder = folder.path,
                                                .queue_bytes = 65536,
                                                .on_batch = stand_still,
                                                .on_batch_user = &gate};
    struct wane__trace_writer *w = open_writer(&options);
    int dropped_requests = 0, dropped_tokens = 0, tokens = 0;
    static const int32_t prompt[] = {1, 2};
    for (int n = 0; n < 30; n++) {
        char id[20];
        snprintf(id, sizeof id, "r%d", n);
        struct wane__trace_request r = request_of(id, prompt, 2);
        dropped_requests += !wane__trace_write_request(w, &r);
        for (int i = 0; i < 20; i++, tokens++) {
            struct wane__trace_token t = rig_token(id, 2, i, (uint64_t)(100 * n + i));
            dropped_tokens += !wane__trace_write_token(w, &t, NULL);
        }
        struct wane__trace_end end = end_of(id, 20);
        assert_true(wane__trace_write_end(w, &end)); /* the last bytes of the queue are theirs */
    }
    assert_true(dropped_tokens > 300 && dropped_requests > 10);
    wane_recorder_state seen;
    wane__trace_write_get_state(w, &seen);
    assert_true(seen.dropped_tokens == (uint64_t)dropped_tokens);
    assert_true(seen.dropped_requests == (uint64_t)dropped_requests);
    assert_true(seen.waiting_bytes <= 32768);
    pthread_mutex_lock(&gate.lock);
    gate.open = true;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
    wane__trace_write_flush(w);
    write_reply(w, "later", 3, 1); /* it goes on */
    wane__trace_write_close(w);
    struct rig_seen read = rig_read(folder.path, NULL);
    assert_int_equal(read.errors, 0);
    assert_int_equal(read.tokens, tokens - dropped_tokens + 3);
    assert_int_equal(read.requests, 30 - dropped_requests + 1);
    assert_true(read.dropped_tokens == (uint64_t)dropped_tokens);
    assert_true(read.dropped_requests == (uint64_t)dropped_requests);
    rig_folder_remove(&folder);
}

/* Killed after a sync and in the middle of more: what was synced is whole, and the rest is no error. */
static void test_kill(void **state) {
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        struct rig_folder folder;
        rig_folder_make(&folder);
        pid_t child = fork();
        if (child == 0) {
            struct wane__trace_write_options options = {.folder = folder.path, .plain = plain};
            struct wane__trace_writer *w = open_writer(&options);
            write_reply(w, "safe", 40, 1);
            wane__trace_write_flush(w);
            write_reply(w, "open", 900, 2);
            usleep(150000); /* some of it may have reached the file */
            raise(SIGKILL);
            _exit(1);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        struct rig_seen seen = rig_read(folder.path, NULL);
        assert_int_equal(seen.errors, 0);
        assert_true(seen.tokens >= 40 && seen.requests >= 1 && seen.ends >= 1);
        assert_true(seen.counts.cut_tails <= 1);
        rig_folder_remove(&folder);
    }
}

/* A disk that takes nothing: counted as lost, said once, and nobody waits. */
static int log_lines;
static void count_line(void *user, int level, const char *line) {
    (void)user;
    assert_int_equal(level, WANE_LOG_ERROR);
    assert_non_null(strstr(line, "trace: Cannot make the trace"));
    log_lines++;
}

static void test_no_disk(void **state) {
    (void)state;
    struct rig_folder folder;
    rig_folder_make(&folder);
    struct wane__log log;
    wane__log_init(&log, count_line, NULL);
    struct wane__trace_write_options options = {.folder = folder.path, .log = &log};
    struct wane__trace_writer *w = open_writer(&options);
    rig_folder_remove(&folder);
    log_lines = 0;
    write_reply(w, "a", 5, 1);
    wane__trace_write_flush(w);
    write_reply(w, "b", 6, 1);
    wane__trace_write_flush(w);
    wane_recorder_state seen;
    wane__trace_write_get_state(w, &seen);
    assert_true(seen.tokens == 0 && seen.dropped_tokens == 11 && seen.dropped_requests == 2);
    assert_true(seen.failures == 1 && log_lines == 1);
    wane__trace_write_close(w);
    wane__log_close(&log);
    wane_error error = {0};
    options.folder = "/proc/none/at/all";
    assert_int_equal(wane__trace_write_open(&options, &rig_origin, &w, &error), WANE_EIO);
    assert_non_null(strstr(error.text, "/proc/none/at/all"));
}

/*
 * A disk that is full in the middle of a reply, and has room again later: what was synced is whole, no half of a line or a frame stays,
 * and what is missing is told where it is missing.
 */
static void skip_lines(void *user, int level, const char *line) {
    (void)level;
    (void)line;
    ++*(int *)user;
}

static void test_a_full_disk(void **state) {
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    for (int plain = 0; plain < 2; plain++) {
        struct rig_folder folder;
        rig_folder_make(&folder);
        struct wane__log log;
        int lines = 0;
        wane__log_init(&log, skip_lines, &lines);
        struct wane__trace_write_options options = {
            .folder = folder.path, .plain = plain, .files = 2, .retry_seconds = 1e-9, .log = &log};
        struct wane__trace_writer *w = open_writer(&options);
        write_reply(w, "safe", 40, 1);
        wane__trace_write_flush(w);
        wane_recorder_state seen;
        wane__trace_write_get_state(w, &seen);
        struct rlimit before, tight;
        getrlimit(RLIMIT_FSIZE, &before);
        tight = before;
        tight.rlim_cur = (rlim_t)seen.bytes + 500;
        setrlimit(RLIMIT_FSIZE, &tight);
        write_reply(w, "half", 300, 2);
        wane__trace_write_flush(w);
        tight.rlim_cur = 0; /* nor in another file */
        setrlimit(RLIMIT_FSIZE, &tight);
        for (int i = 0; i < 3; i++) {
            write_reply(w, "none", 10, 3);
            wane__trace_write_flush(w);
        }
        setrlimit(RLIMIT_FSIZE, &before);
        wane__trace_write_get_state(w, &seen);
        assert_int_equal(rig_count(&folder), 1); /* no file for each try, and no old one gone for them */
        assert_true(seen.failures >= 4 && seen.dropped_tokens == 330 && seen.dropped_requests == 4);
        assert_int_equal(lines, 1);
        write_reply(w, "again", 5, 4);
        wane__trace_write_close(w);
        wane__log_close(&log);
        assert_int_equal(lines, 2);
        assert_int_equal(rig_count(&folder), 2);
        struct rig_seen read = rig_read(folder.path, NULL);
        assert_true(read.errors == 0 && read.counts.cut_tails == 0);
        assert_true(read.requests == 2 && read.tokens == 45 && read.ends == 2);
        assert_true(read.dropped_tokens == 330 && read.dropped_requests == 4);
        rig_folder_remove(&folder);
    }
}

/* The clock was ahead by years, and is right again: what is newest keeps its place, by name and when the oldest goes. */
static void test_the_clock_was_set_back(void **state) {
    (void)state;
    static const char *const names[] = {"trace-29991231T235958.123Z-99-0001.jsonl",
                                        "trace-29991231T235959.999Z-99-0002.jsonl"};
    struct rig_folder folder;
    rig_folder_make(&folder);
    for (int i = 0; i < 2; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s", folder.path, names[i]);
        rig_save(path, "", 0);
    }
    struct wane__trace_write_options options = {.folder = folder.path, .plain = true, .files = 2};
    for (int i = 0; i < 3; i++) {
        char id[20];
        snprintf(id, sizeof id, "w%d", i);
        struct wane__trace_writer *w = open_writer(&options);
        write_reply(w, id, 1, 0);
        wane__trace_write_close(w);
    }
    assert_int_equal(rig_count(&folder), 2);
    char *text = rig_text(&folder), *first = strstr(text, "\"w1\""), *second = strstr(text, "\"w2\"");
    assert_true(first != NULL && second > first && strstr(text, "\"w0\"") == NULL);
    wane__free(text);
    rig_folder_remove(&folder);
}

/* --------------------------------------------------------------- redaction */

/* Tokens: 0 … 255 are bytes; 300 … are pieces; 1000 has no text. */
static const char *const pieces[] = {"sk-", "ab", "c12", "3x", " key: s", "k-abc", "123x.", "\n"};

static int piece_bytes(void *user, int32_t token, char *buffer, size_t capacity) {
    (void)user;
    if (token < 256 && capacity > 0) {
        buffer[0] = (char)token;
        return 1;
    }
    if (token < 300 || token >= 300 + (int)(sizeof pieces / sizeof *pieces)) return 0;
    size_t size = strlen(pieces[token - 300]);
    memcpy(buffer, pieces[token - 300], size);
    return (int)size;
}

struct redaction {
    struct rig_folder folder;
    char list[100];
    struct wane__trace_writer *writer;
};

static void redaction_open(struct redaction *r, const char *patterns, size_t hold_bytes) {
    rig_folder_make(&r->folder);
    snprintf(r->list, sizeof r->list, "%s.list", r->folder.path);
    rig_save(r->list, patterns, strlen(patterns));
    struct wane__trace_write_options options = {.folder = r->folder.path,
                                                .plain = true,
                                                .redact_path = r->list,
                                                .token_bytes = piece_bytes,
                                                .hold_bytes = hold_bytes};
    r->writer = open_writer(&options);
}

static void redaction_close(struct redaction *r) {
    rig_folder_remove(&r->folder);
    unlink(r->list);
}

/* A reply whose records are as the layer makes them: last tokens, names, positions. */
static void redaction_reply(struct redaction *r, const char *id, const int32_t *prompt, int prompt_count,
                            const int32_t *reply, int reply_count) {
    struct wane__trace_request request = request_of(id, prompt, (size_t)prompt_count);
    request.stops[0] = "stop at sk-abc123x";
    request.stops[1] = "fine";
    request.stop_count = 2;
    assert_true(wane__trace_write_request(r->writer, &request));
    int32_t all[100];
    memcpy(all, prompt, (size_t)prompt_count * sizeof *all);
    memcpy(all + prompt_count, reply, (size_t)reply_count * sizeof *all);
    struct wane__context_name name = wane__context_begin(9);
    for (int i = 0; i < prompt_count; i++) name = wane__context_add(name, all[i]);
    for (int i = 0; i < reply_count; i++) {
        struct wane__trace_token t = {.kind = WANE__KIND_MULTI, .tenant = 9, .before = name, .log_sum = NAN};
        snprintf(t.request, sizeof t.request, "%s", id);
        t.index = i;
        t.position = prompt_count + i;
        t.last_count = t.position < WANE__TEN ? t.position : WANE__TEN;
        memcpy(t.last, all + t.position - t.last_count, (size_t)t.last_count * sizeof *all);
        t.token = reply[i];
        t.top_count = 1;
        t.top[0] = (struct wane__candidate){reply[i], 1};
        assert_true(wane__trace_write_token(r->writer, &t, NULL));
        name = wane__context_add(name, reply[i]);
    }
    struct wane__trace_end end = end_of(id, reply_count);
    assert_true(wane__trace_write_end(r->writer, &end));
}

/* Not one record may hold a token of the secret, as drawn, before it, or in the prompt; returns how many tokens there are. */
static int check_no_secret(const struct redaction *r, const int32_t *secret, int count) {
    struct wane__trace_reader *reader = NULL;
    struct wane__trace_record record;
    struct wane__trace_read_options read = {.expected = &rig_origin};
    const char *paths[] = {r->folder.path};
    wane_error error = {0};
    int tokens = 0;
    assert_int_equal(wane__trace_read_open(paths, 1, &read, &reader, &error), WANE_OK);
    while (wane__trace_read_next(reader, &record, &error) == WANE_OK && record.type != WANE__TRACE_DONE) {
        for (int s = 0; s < count; s++) {
            for (size_t i = 0; record.type == WANE__TRACE_REQUEST && i < record.request->prompt_count; i++)
                assert_int_not_equal(record.request->prompt[i], secret[s]);
            if (record.type != WANE__TRACE_TOKEN) continue;
            assert_int_not_equal(record.token->token, secret[s]);
            for (int i = 0; i < record.token->last_count; i++)
                assert_int_not_equal(record.token->last[i], secret[s]);
        }
        if (record.type == WANE__TRACE_REQUEST) {
            assert_string_equal(record.request->stops[0], "");
            assert_string_equal(record.request->stops[1], "fine");
        }
        tokens += record.type == WANE__TRACE_TOKEN;
    }
    assert_string_equal(error.text, "");
    wane__trace_read_close(reader);
    return tokens;
}

/* The secret sk-abc123x in every cut into pieces that the vocabulary has, at every place of prompt and reply. */
static void test_secrets_in_pieces(void **state) {
    (void)state;
    static const int32_t cuts[][10] = {
        {300, 301, 302, 303},                               /* sk- ab c12 3x        */
        {'s', 'k', '-', 'a', 'b', 'c', '1', '2', '3', 'x'}, /* byte by byte         */
        {304, 305, 306},                                    /* with text around it  */
        {300, 301, 1000, 302, 303},                         /* a token without text */
    };
    static const int lengths[] = {4, 10, 3, 5};
    for (int c = 0; c < 4; c++) {
        for (int before = 0; before <= lengths[c]; before++) { /* so many of its tokens in the prompt */
            struct redaction r;
            redaction_open(&r, "# keys\n\nsk-[a-z0-9]{4,}\r\n", 0);
            int32_t prompt[40] = {'H', 'i', ' '}, reply[40];
            int prompt_count = 3, reply_count = 0;
            for (int i = 0; i < before; i++) prompt[prompt_count++] = cuts[c][i];
            for (int i = before; i < lengths[c]; i++) reply[reply_count++] = cuts[c][i];
            for (int i = 0; i < 14; i++)
                reply[reply_count++] = ' ' + i % 2; /* never a letter of the secret */
            redaction_reply(&r, "r", prompt, prompt_count, reply, reply_count);
            wane__trace_write_flush(r.writer);
            wane_recorder_state seen;
            wane__trace_write_get_state(r.writer, &seen);
            wane__trace_write_close(r.writer);
            int tokens = check_no_secret(&r, cuts[c], lengths[c]);
            assert_int_equal(tokens, 4); /* the last four have ten tokens before them without a secret one */
            struct rig_seen read = rig_read(r.folder.path, NULL);
            assert_int_equal(read.redacted, lengths[c]);
            assert_int_equal(read.withheld, reply_count - 4);
            assert_true(seen.redacted_tokens == (uint64_t)lengths[c] && seen.tokens == 4);
            assert_true(seen.withheld_tokens == (uint64_t)(reply_count - 4) && seen.held_bytes == 0);
            redaction_close(&r);
        }
    }
}

/* Names of contexts say nothing of a secret: two requests that differ in it only have the same ones. */
static void test_names_say_nothing(void **state) {
    (void)state;
    struct wane__context_name name[2] = {{0, 0}, {0, 0}};
    for (int n = 0; n < 2; n++) {
        struct redaction r;
        redaction_open(&r, "[0-9]+\n", 0);
        int32_t prompt[20] = {'a', '0' + n, 'b'};
        for (int i = 3; i < 20; i++) prompt[i] = 'c';
        redaction_reply(&r, "r", prompt, 20, (int32_t[]){'d', 'e'}, 2);
        wane__trace_write_close(r.writer);
        struct wane__trace_reader *reader = NULL;
        struct wane__trace_record record;
        struct wane__trace_read_options read = {0};
        const char *paths[] = {r.folder.path};
        wane_error error = {0};
        assert_int_equal(wane__trace_read_open(paths, 1, &read, &reader, &error), WANE_OK);
        while (wane__trace_read_next(reader, &record, &error) == WANE_OK && record.type != WANE__TRACE_DONE)
            if (record.type == WANE__TRACE_TOKEN) name[n] = record.token->before;
        wane__trace_read_close(reader);
        redaction_close(&r);
    }
    assert_true(name[0].low != 0 && name[0].low == name[1].low && name[0].high == name[1].high);
}

/* Without a secret nothing changes: names are those that were given. */
static void test_nothing_to_redact(void **state) {
    (void)state;
    struct redaction r;
    redaction_open(&r, "nowhere\n^never$\n", 0);
    int32_t prompt[] = {'a', 'b', 'c'}, reply[] = {'d', 'e', 'f'};
    redaction_reply(&r, "r", prompt, 3, reply, 3);
    wane__trace_write_close(r.writer);
    struct wane__context_name name = wane__context_begin(9);
    for (int i = 0; i < 3; i++) name = wane__context_add(name, prompt[i]);
    for (int i = 0; i < 2; i++) name = wane__context_add(name, reply[i]);
    char *text = rig_text(&r.folder), hex[40];
    snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)name.high, (unsigned long long)name.low);
    assert_non_null(strstr(text, hex));
    assert_non_null(strstr(text, "stop at sk-abc123x"));
    assert_int_equal(rig_read(r.folder.path, NULL).tokens, 3);
    wane__free(text);
    redaction_close(&r);
}

/* A request that cannot be searched is not written: a hole, a beginning or an end that is missing, too much of it. */
static void test_holes(void **state) {
    (void)state;
    static const int32_t prompt[] = {1, 2, 3};
    for (int missing = 0; missing < 4; missing++) {
        struct redaction r;
        redaction_open(&r, "secret\n", missing == 3 ? 3000 : 0);
        struct wane__trace_request request = request_of("r", prompt, 3);
        if (missing != 0) wane__trace_write_request(r.writer, &request);
        int sent = 0;
        for (int i = 0; i < 8; i++) {
            if (missing == 1 && i == 4) continue;
            if (missing == 2 && i == 7) continue;
            struct wane__trace_token t = rig_token("r", 3, i, (uint64_t)i);
            sent += wane__trace_write_token(r.writer, &t, NULL);
        }
        struct wane__trace_end end = end_of("r", 8);
        wane__trace_write_end(r.writer, &end);
        wane__trace_write_flush(r.writer);
        wane_recorder_state seen;
        wane__trace_write_get_state(r.writer, &seen);
        assert_true(seen.tokens == 0 && seen.requests == 0 && seen.held_bytes == 0);
        assert_true(seen.dropped_tokens == (uint64_t)sent);
        assert_true(seen.dropped_requests == (missing != 0));
        wane__trace_write_close(r.writer);
        struct rig_seen read = rig_read(r.folder.path, NULL);
        assert_true(read.dropped_tokens == (uint64_t)sent && read.tokens == 0);
        redaction_close(&r);
    }
}

/* Still open when the writer closes: searched as far as it came, and written. */
static void test_open_at_the_end(void **state) {
    (void)state;
    struct redaction r;
    redaction_open(&r, "sk-[a-z0-9]{4,}\n", 0);
    static const int32_t prompt[] = {1, 2, 3}, secret[] = {300, 301, 302};
    struct wane__trace_request request = request_of("r", prompt, 3);
    assert_true(wane__trace_write_request(r.writer, &request));
    for (int i = 0; i < 3; i++) {
        struct wane__trace_token t = {
            .request = "r", .index = i, .position = 3 + i, .token = secret[i], .top_count = 1};
        assert_true(wane__trace_write_token(r.writer, &t, NULL));
    }
    wane__trace_write_close(r.writer);
    struct rig_seen read = rig_read(r.folder.path, NULL);
    assert_true(read.requests == 1 && read.tokens == 0 && read.redacted == 3 && read.ends == 0);
    redaction_close(&r);
}

static void test_bad_patterns(void **state) {
    (void)state;
    static const struct {
        const char *list, *says;
    } cases[] = {
        {"a(b\n", "line 1"},    {"fine\n\n[z-a]\n", "line 3"},
        {"x*\n", "everywhere"}, {"# nothing\n", "no pattern"},
        {"", "no pattern"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wane__redact *redact = NULL;
        wane_error error = {0};
        assert_int_equal(wane__redact_parse(cases[i].list, strlen(cases[i].list), &redact, &error),
                         WANE_EFORMAT);
        assert_null(redact);
        if (strstr(error.text, cases[i].says) == NULL) fail_msg("%s", error.text);
    }
    struct wane__trace_write_options options = {.folder = "/tmp", .redact_path = "/tmp/no/such/list"};
    struct wane__trace_writer *w = NULL;
    wane_error error = {0};
    assert_int_equal(wane__trace_write_open(&options, &rig_origin, &w, &error), WANE_ENOENT);
}

/* ------------------------------------------------------------------ threads */

struct caller {
    struct wane__trace_writer *writer;
    int number, dropped;
};

static void *call(void *user) {
    struct caller *c = user;
    for (int n = 0; n < 20; n++) {
        char id[20];
        snprintf(id, sizeof id, "c%d-%d", c->number, n);
        write_reply(c->writer, id, 25, (uint64_t)n);
        wane_recorder_state seen;
        wane__trace_write_get_state(c->writer, &seen);
        if (n % 5 == 0) wane__trace_write_flush(c->writer);
    }
    return NULL;
}

static void test_many_callers(void **state) {
    (void)state;
    struct rig_folder folder;
    rig_folder_make(&folder);
    struct wane__trace_write_options options = {.folder = folder.path};
    struct wane__trace_writer *w = open_writer(&options);
    pthread_t thread[4];
    struct caller caller[4];
    for (int i = 0; i < 4; i++) {
        caller[i] = (struct caller){w, i, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, call, &caller[i]), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    wane__trace_write_close(w);
    struct rig_seen seen = rig_read(folder.path, NULL);
    assert_true(seen.errors == 0 && seen.tokens == 4 * 20 * 25 && seen.requests == 80 && seen.ends == 80);
    rig_folder_remove(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_full_queue_drops_and_counts),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_no_disk),
        cmocka_unit_test(test_a_full_disk),
        cmocka_unit_test(test_the_clock_was_set_back),
        cmocka_unit_test(test_secrets_in_pieces),
        cmocka_unit_test(test_names_say_nothing),
        cmocka_unit_test(test_nothing_to_redact),
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_open_at_the_end),
        cmocka_unit_test(test_bad_patterns),
        cmocka_unit_test(test_many_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
