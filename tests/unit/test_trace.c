/* test_trace.c - lines of traces: every float survives, both ways of reading agree, every cut and every fault is found. */
#include "unit/trace_rig.h"

/* Of a literal: all but its zero. */
#define save_text(path, literal) rig_save(path, literal, sizeof(literal) - 1)

static void test_floats_survive(void **state) {
    (void)state;
    static const float special[] = {0.0f,       -0.0f,         1.0f,           -1.0f,     0.1f,
                                    1e-4f,      9.9999e-5f,    1e9f,           999999936, 16777216,
                                    16777217.f, 3.4028235e38f, 1.1754944e-38f, 1e-45f,    123456.7f,
                                    0.3f,       -12.5f,        5e8f,           33554432,  8388609.5f};
    for (uint64_t n = 0; n < 200000; n++) {
        float value = n < sizeof special / sizeof *special ? special[n] : rig_float(n);
        char text[WANE__TRACE_FLOAT + 1];
        int size = wane__trace_float(value, text);
        assert_in_range(size, 1, WANE__TRACE_FLOAT);
        text[size] = '\0';
        float direct = strtof(text, NULL), through = (float)strtod(text, NULL);
        assert_memory_equal(&direct, &value, sizeof value);
        assert_memory_equal(&through, &value, sizeof value);
        char longest[40];
        snprintf(longest, sizeof longest, "%.9g", (double)value);
        if (fabsf(value) >= 1e-4f && fabsf(value) < 1e9f) assert_true(strlen(text) <= strlen(longest));
    }
}

static bool parse(const char *line, size_t size, bool slow, struct wane__trace_scratch *scratch,
                  struct wane__trace_record *record, wane_error *error) {
    return wane__trace_parse(line, size, RIG_VOCAB, false, slow, scratch, record, error) == WANE_OK;
}

static void test_both_ways_agree(void **state) {
    (void)state;
    struct wane__trace_scratch fast = {0}, slow = {0};
    struct wane__trace_record a, b;
    wane_error error = {0};
    int accepted = 0;
    for (uint64_t n = 0; n < 3000; n++) {
        struct wane__buf line = {0};
        struct wane__trace_token t = rig_token("req-1", (int)(n % 20), (int)(n % 7), n);
        wane__trace_put_token(&line, &t, NULL, 0);
        size_t size = line.size - 1;
        line.data[size] = '\0';
        struct wane__trace_token short_way;
        assert_true(
            wane__trace_parse_token(line.data, size, &short_way)); /* the canonical layout goes that way */
        rig_same_token(&t, &short_way);
        assert_true(parse(line.data, size, true, &slow, &b, &error));
        rig_same_token(&t, b.token);
        /* One byte changed, cut out or doubled: accepted by both alike, or by none. */
        for (uint64_t m = 0; m < 60; m++) {
            uint64_t bits = wane__random_bits(n, 9000 + m);
            size_t at = (bits >> 8) % size;
            char *copy = malloc(size + 2);
            size_t length = size;
            memcpy(copy, line.data, size + 1);
            static const char bytes[] = "0123456789-.eE,[]{}\"\\ truefalsn\x01\x7f\xc3";
            if (m % 3 == 0) {
                copy[at] = bytes[bits % (sizeof bytes - 1)];
            } else if (m % 3 == 1) {
                memmove(copy + at, copy + at + 1, size - at);
                length--;
            } else {
                memmove(copy + at + 1, copy + at, size - at + 1);
                length++;
            }
            bool one = parse(copy, length, false, &fast, &a, &error);
            bool two = parse(copy, length, true, &slow, &b, &error);
            assert_int_equal(one, two);
            if (one && a.type == WANE__TRACE_TOKEN) {
                assert_int_equal(b.type, WANE__TRACE_TOKEN);
                rig_same_token(a.token, b.token);
                accepted++;
            }
            free(copy);
        }
        wane__buf_free(&line);
    }
    assert_true(accepted > 1000);
    wane__trace_scratch_free(&fast);
    wane__trace_scratch_free(&slow);
}

static void test_other_layouts(void **state) {
    (void)state;
    static const char line[] =
        " { \"top\" : [ [ 5 , 1.5e0 ] , [ 7 , 0.25 ] ], \"token\": 5, \"log_sum\": null, \"later\": {\"a\": "
        "[1]},"
        "\"changed\":true,\"last\":[1,2],\"index\":1,\"position\":2,\"before\":"
        "\"0000000000000001000000000000000A\","
        "\"tenant\":\"00000000000000Ff\",\"kind\":\"code\",\"id\":\"\\u0061b\",\"type\":\"token\"} ";
    struct wane__trace_scratch scratch = {0};
    struct wane__trace_record record;
    wane_error error = {0};
    assert_true(parse(line, sizeof line - 1, false, &scratch, &record, &error));
    assert_int_equal(record.type, WANE__TRACE_TOKEN);
    assert_string_equal(record.token->request, "ab");
    assert_true(record.token->before.high == 1 && record.token->before.low == 10);
    assert_true(record.token->tenant == 255 && isnan(record.token->log_sum));
    assert_true(record.token->top_count == 2 && record.token->top[0].logit == 1.5f);
    wane__trace_scratch_free(&scratch);
}

static void test_faults_are_named(void **state) {
    (void)state;
    static const char *const good =
        "{\"type\":\"token\",\"id\":\"r\",\"kind\":\"single\",\"tenant\":\"0000000000000000\","
        "\"before\":\"00000000000000000000000000000000\",\"position\":3,\"index\":1,\"last\":[1,2,3],"
        "\"token\":5,"
        "\"changed\":false,\"top\":[[5,2.5],[7,2.5],[6,1.25]],\"log_sum\":3}";
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"", "", NULL},
        {"\"id\":\"r\"", "\"id\":\"\"", "\"id\""},
        {"\"kind\":\"single\"", "\"kind\":\"sing\"", "\"kind\""},
        {"\"tenant\":\"0", "\"tenant\":\"", "\"tenant\""},
        {"\"tenant\":\"0", "\"tenant\":\"g", "\"tenant\""},
        {"\"before\":\"0", "\"before\":\"00", "\"before\""},
        {"\"position\":3", "\"position\":-3", "\"position\""},
        {"\"position\":3", "\"position\":3000000000", "\"position\""},
        {"\"position\":3", "\"position\":3.5", "\"position\""},
        {"\"position\":3", "\"position\":2", "\"position\""},
        {"\"index\":1", "\"index\":4", "\"position\""},
        {"\"last\":[1,2,3]", "\"last\":[1,2,50000]", "\"last\""},
        {"\"last\":[1,2,3]", "\"last\":[1,1,1,1,1,1,1,1,1,1,1]", "\"last\""},
        {"\"last\":[1,2,3]", "\"last\":[1,2,-1]", "\"last\""},
        {"\"token\":5", "\"token\":50000", "\"token\""},
        {"\"changed\":false", "\"changed\":0", "\"changed\""},
        {"\"changed\":false", "\"changed\":false,\"state\":\"calm\"", "\"state\""},
        {"\"changed\":false", "\"changed\":false,\"state\":1", "\"state\""},
        {"[[5,2.5],[7,2.5],[6,1.25]]", "[]", "\"top\""},
        {"[[5,2.5]", "[[50000,2.5]", "\"top\""},
        {"[[5,2.5]", "[[5,1e99]", "\"top\""},
        {"[[5,2.5],[7,2.5]", "[[7,2.5],[5,2.5]", "not in order"},
        {"[[5,2.5]", "[[5,2.25]", "not in order"},
        {"[[5,2.5]", "[[5,2.5,1]", "\"top\""},
        {"\"log_sum\":3", "\"log_sum\":\"3\"", "\"log_sum\""},
        {"\"changed\":false", "\"changed\":false,\"changed\":false", "JSON"},
        {"\"log_sum\":3}", "\"log_sum\":3", "JSON"},
    };
    struct wane__trace_scratch scratch = {0};
    struct wane__trace_record record;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[1000];
        const char *at = strstr(good, cases[i].from);
        snprintf(line, sizeof line, "%.*s%s%s", (int)(at - good), good, cases[i].to,
                 at + strlen(cases[i].from));
        for (int slow = 0; slow < 2; slow++) {
            wane_error error = {0};
            bool fine = parse(line, strlen(line), slow, &scratch, &record, &error);
            assert_int_equal(fine, cases[i].says == NULL);
            if (!fine && strstr(error.text, cases[i].says) == NULL)
                fail_msg("%s: %s", cases[i].to, error.text);
        }
    }
    wane__trace_scratch_free(&scratch);
}

static void put_requests(struct wane__buf *out, int requests, int tokens) {
    static const int32_t prompt[] = {1, 2, 3, 4, WANE__TRACE_REDACTED};
    static const wane_bias bias[] = {{5, -INFINITY}, {6, 0.1f}};
    for (int n = 0; n < requests; n++) {
        struct wane__trace_request r = {.kind = WANE__KIND_CODE,
                                        .tenant = 5,
                                        .time_ms = 1764460000123,
                                        .prompt = prompt,
                                        .prompt_count = 5,
                                        .max_tokens = 7,
                                        .ignore_end = true,
                                        .stops = {"\n\n", "a\"b\\", ""},
                                        .stop_count = 3,
                                        .redacted = 1};
        snprintf(r.request, sizeof r.request, "r%d", n);
        wane__sampling_defaults(&r.sampling);
        r.sampling.temperature = 0.7f;
        r.sampling.seed = UINT64_MAX;
        r.sampling.bias = bias;
        r.sampling.bias_count = 2;
        wane__trace_put_request(out, &r);
        for (int i = 0; i < tokens; i++) {
            struct wane__trace_token t = rig_token(r.request, 5, i, (uint64_t)(100 * n + i));
            wane__trace_put_token(out, &t, NULL, 0);
        }
        struct wane__trace_end end = {.finish = "length", .tokens = tokens, .ms = 12.3456};
        memcpy(end.request, r.request, sizeof end.request);
        wane__trace_put_end(out, &end);
    }
}

static void test_requests_survive(void **state) {
    (void)state;
    struct wane__buf text = {0};
    put_requests(&text, 1, 0);
    char *newline = strchr(text.data, '\n');
    *newline = '\0';
    struct wane__trace_scratch scratch = {0};
    struct wane__trace_record record;
    wane_error error = {0};
    assert_true(parse(text.data, strlen(text.data), false, &scratch, &record, &error));
    const struct wane__trace_request *r = record.request;
    assert_int_equal(record.type, WANE__TRACE_REQUEST);
    assert_true(r->kind == WANE__KIND_CODE && r->tenant == 5 && r->time_ms == 1764460000123);
    assert_true(r->prompt_count == 5 && r->prompt[4] == WANE__TRACE_REDACTED && r->redacted == 1);
    assert_true(r->max_tokens == 7 && r->ignore_end && r->stop_count == 3);
    assert_string_equal(r->stops[0], "\n\n");
    assert_string_equal(r->stops[1], "a\"b\\");
    assert_string_equal(r->stops[2], "");
    assert_true(r->sampling.temperature == 0.7f && r->sampling.seed == UINT64_MAX && r->sampling.seeded);
    assert_true(r->sampling.bias_count == 2 && isinf(r->sampling.bias[0].bias));
    assert_true(r->sampling.bias[1].bias == 0.1f && r->sampling.bias[1].token == 6);
    assert_true(parse(newline + 1, strlen(newline + 1), false, &scratch, &record, &error));
    assert_int_equal(record.type, WANE__TRACE_END);
    assert_string_equal(record.end->finish, "length");
    wane__trace_scratch_free(&scratch);
    wane__buf_free(&text);
}

static void test_votes_survive(void **state) {
    (void)state;
    static const int32_t prompt[] = {1, 2};
    struct wane__trace_request r = {
        .request = "b", .prompt = prompt, .prompt_count = 2, .vote_of = "a", .vote_answer = 2};
    struct wane__trace_vote vote = {.of = "a \"x", .chosen = 1};
    struct wane__buf request = {0}, outcome = {0};
    struct wane__trace_scratch scratch = {0};
    struct wane__trace_record record;
    wane_error error = {0};
    wane__sampling_defaults(&r.sampling);
    wane__trace_put_request(&request, &r);
    wane__trace_put_vote(&outcome, &vote);
    request.data[--request.size] = outcome.data[--outcome.size] = '\0';
    for (int slow = 0; slow < 2; slow++) {
        assert_true(parse(request.data, request.size, slow, &scratch, &record, &error));
        assert_string_equal(record.request->vote_of, "a");
        assert_int_equal(record.request->vote_answer, 2);
        assert_true(parse(outcome.data, outcome.size, slow, &scratch, &record, &error));
        assert_int_equal(record.type, WANE__TRACE_VOTE);
        assert_string_equal(record.vote->of, "a__x"); /* names are made harmless */
        assert_int_equal(record.vote->chosen, 1);
    }
    static const struct {
        const char *line, *says;
    } wrong[] = {{"{\"type\":\"vote\",\"of\":\"a\",\"chosen\":3}", "\"chosen\""},
                 {"{\"type\":\"vote\",\"of\":\"a\"}", "\"chosen\""},
                 {"{\"type\":\"vote\",\"of\":\"\",\"chosen\":0}", "\"of\""},
                 {"{\"type\":\"vote\",\"chosen\":0}", "\"of\""}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(parse(wrong[i].line, strlen(wrong[i].line), false, &scratch, &record, &error));
        assert_non_null(strstr(error.text, wrong[i].says));
    }
    static const char *const votes[] = {"\"vote\":1}", "\"vote\":{}}",
                                        "\"vote\":{\"of\":\"a\",\"answer\":-1}}"};
    for (size_t i = 0; i < sizeof votes / sizeof *votes; i++) {
        char line[1000];
        char *at = strstr(request.data, "\"vote\"");
        snprintf(line, sizeof line, "%.*s%s", (int)(at - request.data), request.data, votes[i]);
        assert_false(parse(line, strlen(line), false, &scratch, &record, &error));
    }
    wane__trace_scratch_free(&scratch);
    wane__buf_free(&request);
    wane__buf_free(&outcome);
}

/* Whatever number an end is given, its line is one that can be read. */
static void test_wild_ends(void **state) {
    (void)state;
    static const double wild[] = {0, -1, 1e-9, 1e11, 1e12, 1e77, INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        struct wane__trace_end end = {.request = "r", .finish = "end", .tokens = 1, .ms = wild[i]};
        struct wane__trace_scratch scratch = {0};
        struct wane__trace_record record;
        struct wane__buf line = {0};
        wane_error error = {0};
        wane__trace_put_end(&line, &end);
        line.data[line.size - 1] = '\0';
        if (!parse(line.data, line.size - 1, false, &scratch, &record, &error)) fail_msg("%s", line.data);
        assert_true(record.end->ms >= 0 && record.end->ms <= WANE__TRACE_MS_MOST);
        wane__trace_scratch_free(&scratch);
        wane__buf_free(&line);
    }
}

static void test_all_logits(void **state) {
    (void)state;
    for (int vocab = 1; vocab <= 7; vocab++) {
        float all[7];
        for (int i = 0; i < vocab; i++) all[i] = i == 2 ? -INFINITY : rig_float((uint64_t)(50 + i));
        struct wane__trace_token t = {.request = "r", .top_count = 1, .log_sum = 1};
        struct wane__buf line = {0};
        wane__trace_put_token(&line, &t, all, vocab);
        struct wane__trace_scratch scratch = {0};
        struct wane__trace_record record;
        wane_error error = {0};
        assert_int_equal(wane__trace_parse(line.data, line.size - 1, vocab, true, false, &scratch, &record,
                                           &error),
                         WANE_OK);
        assert_memory_equal(record.all, all, (size_t)vocab * sizeof *all);
        assert_int_equal(wane__trace_parse(line.data, line.size - 1, vocab + 1, true, false, &scratch,
                                           &record, &error),
                         WANE_EFORMAT);
        assert_non_null(strstr(error.text, "\"all\""));
        wane__trace_scratch_free(&scratch);
        wane__buf_free(&line);
    }
}

/* ------------------------------------------------------------------- files */

static struct wane__buf small_trace(int requests, int tokens) {
    struct wane__buf text = {0};
    wane__trace_put_origin(&text, &rig_origin, 1764460000000);
    put_requests(&text, requests, tokens);
    assert_false(text.failed);
    return text;
}

/* Two frames, as a writer that synced in between leaves them. */
static struct wane__buf compress(const struct wane__buf *text) {
    struct wane__buf out = {0};
    size_t half = text->size / 2, bound = ZSTD_compressBound(text->size);
    wane__buf_reserve(&out, 2 * bound);
    size_t one = ZSTD_compress(out.data, bound, text->data, half, 3);
    size_t two = ZSTD_compress(out.data + one, bound, text->data + half, text->size - half, 3);
    assert_false(ZSTD_isError(one) || ZSTD_isError(two));
    out.size = one + two;
    return out;
}

/* Cut at every byte: no error, what is whole is there, and one cut is counted unless the cut is between two lines. */
static void test_cut_everywhere(void **state) {
    (void)state;
    struct rig_folder folder;
    rig_folder_make(&folder);
    char path[100];
    struct wane__buf text = small_trace(1, 2);
    snprintf(path, sizeof path, "%s/a.jsonl", folder.path);
    for (size_t size = 0; size <= text.size; size++) {
        rig_save(path, text.data, size);
        struct rig_seen seen = rig_read(path, NULL);
        int lines = 0;
        for (size_t i = 0; i < size; i++) lines += text.data[i] == '\n';
        bool whole = size > 0 && text.data[size - 1] == '\n';
        bool but_the_end = size > 0 && size < text.size && text.data[size] == '\n';
        assert_int_equal(seen.errors, 0);
        assert_int_equal(seen.origins + seen.requests + seen.tokens + seen.ends, lines + but_the_end);
        assert_int_equal(seen.counts.cut_tails, !whole && !but_the_end);
    }
    struct wane__buf packed = compress(&text);
    snprintf(path, sizeof path, "%s/a.jsonl.zst", folder.path);
    int last = 0;
    for (size_t size = 0; size <= packed.size; size++) {
        rig_save(path, packed.data, size);
        struct rig_seen seen = rig_read(path, NULL);
        int records = seen.origins + seen.requests + seen.tokens + seen.ends;
        assert_int_equal(seen.errors, 0);
        assert_true(records >= last); /* more bytes never give less */
        last = records;
        assert_int_equal(seen.counts.cut_tails, size < packed.size);
    }
    assert_int_equal(last, 5);
    wane__buf_free(&packed);
    wane__buf_free(&text);
    rig_folder_remove(&folder);
}

/* A cut file between two whole ones: the reader goes on, in order of their names, whatever their form. */
static void test_goes_on_behind_a_cut(void **state) {
    (void)state;
    struct rig_folder folder;
    rig_folder_make(&folder);
    char path[100];
    struct wane__buf text = small_trace(3, 4), packed = compress(&text);
    snprintf(path, sizeof path, "%s/1.jsonl.zst", folder.path);
    rig_save(path, packed.data, packed.size);
    snprintf(path, sizeof path, "%s/2.jsonl.zst", folder.path);
    rig_save(path, packed.data, packed.size / 4);
    snprintf(path, sizeof path, "%s/3.jsonl", folder.path);
    rig_save(path, text.data, text.size);
    snprintf(path, sizeof path, "%s/notes.txt", folder.path);
    save_text(path, "no trace");
    struct rig_seen seen = rig_read(folder.path, NULL);
    assert_int_equal(seen.errors, 0);
    assert_int_equal(seen.counts.files, 3);
    assert_int_equal(seen.counts.cut_tails, 1);
    assert_in_range(seen.tokens, 24, 36);
    wane__buf_free(&packed);
    wane__buf_free(&text);
    rig_folder_remove(&folder);
}

static void test_wrong_lines(void **state) {
    (void)state;
    struct rig_folder folder;
    rig_folder_make(&folder);
    char path[100], says[120];
    struct wane__buf text = small_trace(1, 3);
    snprintf(path, sizeof path, "%s/a.jsonl", folder.path);
    char *third = strchr(strchr(text.data, '\n') + 1, '\n') + 1;
    third[0] = '[';
    rig_save(path, text.data, text.size);
    struct rig_seen seen = rig_read(path, NULL);
    assert_int_equal(seen.errors, 1);
    assert_int_equal(seen.first_code, WANE_EFORMAT);
    snprintf(says, sizeof says, "%s:3: ", path);
    assert_non_null(strstr(seen.first_error, says));
    assert_int_equal(seen.tokens, 2); /* it stands behind the wrong line */
    assert_int_equal(seen.ends, 1);

    save_text(path,
              "{\"type\":\"end\",\"id\":\"a\",\"finish\":\"end\",\"tokens\":1,\"redacted\":0,\"ms\":1}\n");
    seen = rig_read(path, NULL);
    assert_non_null(strstr(seen.first_error, "no origin"));
    assert_int_equal(seen.errors, 1);
    save_text(path, "hello\n");
    assert_int_equal(rig_read(path, NULL).errors, 1);
    save_text(path, "hello");
    assert_int_equal(rig_read(path, NULL).errors, 1);
    save_text(path, "\x28\xB5\x2F\xFDgarbage and more of it");
    seen = rig_read(path, NULL);
    assert_non_null(strstr(seen.first_error, "damaged"));
    rig_folder_remove(&folder);
    assert_int_equal(rig_read(path, NULL).first_code, WANE_ENOENT);
    wane__buf_free(&text);
}

static void test_long_lines(void **state) {
    (void)state;
    struct rig_folder folder;
    rig_folder_make(&folder);
    char path[100];
    snprintf(path, sizeof path, "%s/a.jsonl", folder.path);
    struct wane__buf text = small_trace(1, 1);
    size_t most = (size_t)3 << 20;
    char *filler = malloc(most + 2);
    for (size_t size = most - 1; size <= most + 1; size++) {
        memset(filler, ' ', size);
        filler[0] = '{';
        memcpy(filler + 1, "\"type\":\"later\"", 14);
        filler[size - 1] = '}';
        struct wane__buf all = {0};
        wane__buf_append(&all, text.data, text.size);
        wane__buf_append(&all, filler, size);
        wane__buf_text(&all, "\n");
        wane__buf_append(&all, strchr(text.data, '\n') + 1,
                         text.size - (size_t)(strchr(text.data, '\n') + 1 - text.data));
        rig_save(path, all.data, all.size);
        struct wane__trace_read_options options = {.line_most = most};
        struct rig_seen seen = rig_read(path, &options);
        assert_int_equal(seen.tokens, 2);
        assert_int_equal(seen.others, size < most);
        assert_int_equal(seen.errors, size >= most);
        if (seen.errors > 0) assert_non_null(strstr(seen.first_error, ":5: a line of more than"));
        wane__buf_free(&all);
    }
    free(filler);
    wane__buf_free(&text);
    rig_folder_remove(&folder);
}

static void test_other_origins(void **state) {
    (void)state;
    struct rig_folder folder;
    rig_folder_make(&folder);
    char path[100];
    struct wane__buf text = small_trace(1, 2);
    snprintf(path, sizeof path, "%s/a.jsonl", folder.path);
    rig_save(path, text.data, text.size);
    struct wane__trace_origin other = rig_origin;
    other.model[0] = 'f';
    struct wane__trace_read_options options = {.expected = &other};
    struct rig_seen seen = rig_read(path, &options);
    assert_int_equal(seen.first_code, WANE_EINVAL);
    assert_non_null(strstr(seen.first_error, "was recorded from the model"));
    assert_int_equal(seen.tokens, 0);
    other = rig_origin;
    other.tokenizer[5] = '0';
    seen = rig_read(path, &options);
    assert_int_equal(seen.first_code, WANE_EINVAL);
    assert_non_null(strstr(seen.first_error, "with the tokenizer"));
    other = rig_origin;
    assert_int_equal(rig_read(path, &options).tokens, 2);

    /* Of two files, the second is another's: refused by default, given on request. */
    other.model[0] = 'f';
    wane__buf_clear(&text);
    wane__trace_put_origin(&text, &other, 0);
    put_requests(&text, 1, 2);
    snprintf(path, sizeof path, "%s/b.jsonl", folder.path);
    rig_save(path, text.data, text.size);
    seen = rig_read(folder.path, NULL);
    assert_int_equal(seen.errors, 1);
    assert_int_equal(seen.tokens, 2);
    struct wane__trace_read_options any = {.any_origin = true};
    assert_int_equal(rig_read(folder.path, &any).tokens, 4);
    other.version = 2;
    wane__buf_clear(&text);
    wane__trace_put_origin(&text, &other, 0);
    rig_save(path, text.data, text.size);
    seen = rig_read(path, NULL);
    assert_int_equal(seen.first_code, WANE_EFORMAT);
    assert_non_null(strstr(seen.first_error, "version 2"));
    wane__buf_free(&text);
    rig_folder_remove(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_survive),   cmocka_unit_test(test_both_ways_agree),
        cmocka_unit_test(test_other_layouts),    cmocka_unit_test(test_faults_are_named),
        cmocka_unit_test(test_requests_survive), cmocka_unit_test(test_all_logits),
        cmocka_unit_test(test_votes_survive),    cmocka_unit_test(test_wild_ends),
        cmocka_unit_test(test_cut_everywhere),   cmocka_unit_test(test_goes_on_behind_a_cut),
        cmocka_unit_test(test_wrong_lines),      cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_other_origins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
