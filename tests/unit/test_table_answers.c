/* test_table_answers.c - the whole way: a trace's file, a table's file, and what the table answers. */
#include "table_rig.h"

#include "table/trace_text.h"

static void write_trace(const char *path, const struct rig *rig, const struct wane__trace_token *all,
                        size_t count) {
    struct wane__trace_origin origin = rig_origin(rig);
    struct wane__buf buf = {0};
    wane__trace_put_origin(&buf, &origin, 0);
    for (size_t i = 0; i < count; i++) wane__trace_put_token(&buf, &all[i], NULL, 0);
    assert_false(buf.failed);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(buf.data, 1, buf.size, file), buf.size);
    fclose(file);
    wane__buf_free(&buf);
}

struct answers {
    int context, index, other; /* by where they were found */
    int exact;                 /* all five logits to the last bit */
};

/* Ask for each context of the traffic, as a program would. */
static struct answers ask(const wane_table *table, const struct rig *rig, const char *tenant,
                          const struct wane__trace_token *all) {
    struct answers found = {0};
    int32_t *tokens = wane__alloc((size_t)(rig->start + rig->length) * sizeof *tokens);
    for (int r = 0; r < rig->requests; r++) {
        for (int i = 0; i < rig->start + rig->length; i++) tokens[i] = rig_token(rig, r, i);
        for (int i = 0; i < rig->length; i++) {
            wane_table_answer answer;
            if (!wane_table_lookup(table, tenant, tokens, (size_t)(rig->start + i), i, &answer)) continue;
            found.context += answer.source == WANE_TABLE_CONTEXT;
            found.index += answer.source == WANE_TABLE_INDEX;
            found.other += answer.source != WANE_TABLE_CONTEXT && answer.source != WANE_TABLE_INDEX;
            const struct wane__trace_token *t = &all[r * rig->length + i];
            bool same = answer.top_count == WANE_TABLE_TOP;
            for (int k = 0; same && k < WANE_TABLE_TOP; k++)
                same = answer.top[k].token == t->top[k].token && answer.top[k].logit == t->top[k].logit;
            found.exact += same;
        }
    }
    wane__free(tokens);
    return found;
}

/* Traffic that repeats is answered with the very logits, below 4,096 tokens and beyond; another tenant's is not. */
static void test_repeats_are_answered(void **state) {
    (void)state;
    char trace[64], path[64];
    snprintf(trace, sizeof trace, "/tmp/wane-answers-%d.jsonl", (int)getpid());
    snprintf(path, sizeof path, "/tmp/wane-answers-%d.slmt", (int)getpid());
    for (int start = 5; start < 10000; start += 4084) {
        struct rig rig = {.vocab = 5003,
                          .requests = 40,
                          .length = 30,
                          .templates = 4,
                          .noise = 10,
                          .start = start,
                          .seed = 3,
                          .tenant = wane__context_tenant("acme")};
        size_t count;
        struct wane__trace_token *all = rig_make(&rig, &count);
        write_trace(trace, &rig, all, count);
        wane_table_build_options options;
        wane_error error = {0};
        wane_table *table = NULL;
        const char *logs[1] = {trace};
        wane_table_report report;
        wane_table_build_options_init(&options);
        options.logs = logs;
        options.log_count = 1;
        options.vocab_size = rig.vocab;
        options.phrases = true;
        options.output = path;
        if (wane_table_build(&options, &report, &error) != WANE_OK) fail_msg("%s", error.text);
        assert_int_equal(report.records, count);
        if (wane_table_open(path, NULL, NULL, &table, &error) != WANE_OK) fail_msg("%s", error.text);
        struct answers same = ask(table, &rig, "acme", all), other = ask(table, &rig, "umbrella", all);
        assert_int_equal(same.context, count);
        assert_int_equal(same.exact, count);
        assert_int_equal(other.context + other.index + other.other, 0);
        wane_table_free(table);
        wane__free(all);
    }
    unlink(trace);
    unlink(path);
}

/* Whose traces they must be: each of the three is asked for, and nothing is written when it is another. */
static void test_other_traces_are_refused(void **state) {
    (void)state;
    char trace[64], path[64];
    snprintf(trace, sizeof trace, "/tmp/wane-answers-%d.jsonl", (int)getpid());
    snprintf(path, sizeof path, "/tmp/wane-answers-%d.slmt", (int)getpid());
    struct rig rig = {.vocab = 1009, .requests = 2, .length = 10, .templates = 1, .start = 5, .seed = 3};
    size_t count;
    struct wane__trace_token *all = rig_make(&rig, &count);
    write_trace(trace, &rig, all, count);
    const char *logs[1] = {trace};
    for (int way = 0; way < 7; way++) {
        wane_table_build_options options;
        wane_error error = {0};
        wane_table_build_options_init(&options);
        options.logs = logs;
        options.log_count = 1;
        options.output = path;
        if (way == 1) options.vocab_size = 1010;
        if (way == 2) memset(options.model, 'c', 32);
        if (way == 3) memset(options.tokenizer, 'c', 32);
        if (way == 4) options.partial_count = 1;
        if (way == 5) options.size = 8;
        if (way == 6) options.partial = true, options.output = NULL;
        assert_int_equal(wane_table_build(&options, NULL, &error), way == 0 ? WANE_OK : WANE_EINVAL);
        assert_int_equal(unlink(path) == 0, way == 0);
        assert_int_equal(error.text[0] == '\0', way == 0);
    }
    /* A trace without an origin is none. */
    write_trace(trace, &rig, all, 0);
    assert_int_equal(truncate(trace, 0), 0);
    wane_table_build_options options;
    wane_error error = {0};
    wane_table_build_options_init(&options);
    options.logs = logs;
    options.log_count = 1;
    assert_int_equal(wane_table_build(&options, NULL, &error), WANE_EFORMAT);
    unlink(trace);
    wane__free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeats_are_answered),
        cmocka_unit_test(test_other_traces_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
