/*
 * json_fields.c - walks a request's top level over tables of fields; owns the table that both APIs share.
 *
 * Every refusal names the field, the value and what is allowed. Ranges stand here and nowhere else on the way in; the
 * library checks them again when the request is submitted.
 */
#include "server/json_fields.h"

#include "server/json.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define IN_CALL(member)     offsetof(struct wane__call, member)
#define IN_SAMPLING(member) offsetof(struct wane__call, generation.sampling.member)
#define GENERATE            (WANE__API_MESSAGES | WANE__API_CHAT | WANE__API_TEXT)
#define ANY                 (GENERATE | WANE__API_COUNT)
#define BOTH_OPENAI         (WANE__API_CHAT | WANE__API_TEXT)
#define BOTH_MESSAGES       (WANE__API_MESSAGES | WANE__API_COUNT)

static bool read_seed(struct wane__call *call, const json_t *value, struct wane__problem *problem) {
    char shown[80];
    if (!json_is_integer(value)) {
        return wane__problem(problem, WANE__PROBLEM_INVALID, "seed", "seed: %s is not an integer of 64 bits",
                             wane__json_show(value, shown, sizeof shown));
    }
    call->generation.sampling.seed = (uint64_t)json_integer_value(value);
    call->generation.sampling.seeded = true;
    return true;
}

static bool read_draft(struct wane__call *call, const json_t *value, struct wane__problem *problem) {
    char shown[80];
    if (!json_is_boolean(value))
        return wane__problem(problem, WANE__PROBLEM_INVALID, "wane_draft",
                             "wane_draft: %s is not allowed; it must be true or false",
                             wane__json_show(value, shown, sizeof shown));
    call->generation.no_draft = json_is_false(value);
    return true;
}

static bool read_kind(struct wane__call *call, const json_t *value, struct wane__problem *problem) {
    char shown[80];
    call->kind = json_is_string(value) ? wane_kind_from(json_string_value(value)) : -1;
    if (call->kind >= 0) return true;
    return wane__problem(
        problem, WANE__PROBLEM_INVALID, "wane_kind",
        "wane_kind: %s is not allowed; it must be \"single\", \"multi\", \"code\" or \"summary\"",
        wane__json_show(value, shown, sizeof shown));
}

static bool read_memo(struct wane__call *call, const json_t *value, struct wane__problem *problem) {
    char shown[80];
    if (!json_is_boolean(value))
        return wane__problem(problem, WANE__PROBLEM_INVALID, "wane_memo",
                             "wane_memo: %s is not allowed; it must be true or false",
                             wane__json_show(value, shown, sizeof shown));
    call->generation.no_memo = json_is_false(value);
    return true;
}

/* Shortcuts can be declined: tokens are the same without. What changes answers is the server's to say. */
static bool read_without(struct wane__call *call, const json_t *value, struct wane__problem *problem) {
    const unsigned gate = 1u << WANE_FEATURE_GATE | 1u << WANE_FEATURE_GOVERNOR;
    char shown[80];
    wane_error error = {0};
    if (json_is_string(value) && strcmp(json_string_value(value), "all") == 0) {
        call->without = WANE_FEATURES_ALL & ~gate;
        return true;
    }
    if (json_is_string(value) &&
        wane_features_from(json_string_value(value), &call->without, &error) == WANE_OK &&
        (call->without & gate) == 0)
        return true;
    return wane__problem(
        problem, WANE__PROBLEM_INVALID, "wane_without",
        "wane_without: %s is not allowed; it must be all, or names with commas between: head, table, "
        "draft, memo",
        wane__json_show(value, shown, sizeof shown));
}

/* Clients put in what they like; a name that is a text says whose request it is. */
static bool read_user(struct wane__call *call, const json_t *value, struct wane__problem *problem) {
    (void)problem;
    const json_t *name = json_is_object(value) ? json_object_get(value, "user_id") : value;
    if (json_is_string(name) && json_string_length(name) > 0) call->user = json_string_value(name);
    return true;
}

static bool read_prepare(struct wane__call *call, const json_t *value, struct wane__problem *problem) {
    char shown[80];
    wane_error error = {0};
    size_t index;
    const json_t *item;
    call->says_prepare = true;
    call->prepare = 0;
    if (!json_is_string(value) && !json_is_array(value))
        return wane__problem(
            problem, WANE__PROBLEM_INVALID, "wane_prepare",
            "wane_prepare: %s is not allowed; it must be a string or an array of names of steps",
            wane__json_show(value, shown, sizeof shown));
    if (json_is_string(value) &&
        wane_prepare_from(json_string_value(value), &call->prepare, &error) != WANE_OK)
        return wane__problem(problem, WANE__PROBLEM_INVALID, "wane_prepare", "wane_prepare: %s", error.text);
    json_array_foreach(value, index, item) {
        unsigned steps = 0;
        if (!json_is_string(item))
            return wane__problem(problem, WANE__PROBLEM_INVALID, "wane_prepare",
                                 "wane_prepare: %s is not allowed; it must be the name of a step",
                                 wane__json_show(item, shown, sizeof shown));
        if (wane_prepare_from(json_string_value(item), &steps, &error) != WANE_OK)
            return wane__problem(problem, WANE__PROBLEM_INVALID, "wane_prepare", "wane_prepare: %s",
                                 error.text);
        call->prepare |= steps;
    }
    return true;
}

/*
 * Sampling fields of both families. count_tokens takes the fields of a message request too, checks them alike, and
 * counts the same prompt: a client may post the very body it is about to send.
 */
static const struct wane__field common[] = {
    {"model", ANY, WANE__FIELD_TEXT, 0, 0, IN_CALL(model), NULL, NULL},
    {"stream", ANY, WANE__FIELD_BOOL, 0, 0, IN_CALL(stream), NULL, NULL},
    {"max_tokens", ANY, WANE__FIELD_INT, 1, INT_MAX, IN_CALL(max_tokens), NULL, NULL},
    {"temperature", ANY, WANE__FIELD_REAL, 0, 2, IN_SAMPLING(temperature), NULL, NULL},
    {"top_p", ANY, WANE__FIELD_REAL, 0, 1, IN_SAMPLING(top_p), NULL, NULL},
    {"top_k", ANY, WANE__FIELD_INT, 0, INT_MAX, IN_SAMPLING(top_k), NULL, NULL},
    {"min_p", BOTH_OPENAI, WANE__FIELD_REAL, 0, 1, IN_SAMPLING(min_p), NULL, NULL},
    {"repeat_penalty", BOTH_OPENAI, WANE__FIELD_REAL, 0.01, 10, IN_SAMPLING(repeat_penalty), NULL, NULL},
    {"presence_penalty", BOTH_OPENAI, WANE__FIELD_REAL, -2, 2, IN_SAMPLING(presence_penalty), NULL, NULL},
    {"frequency_penalty", BOTH_OPENAI, WANE__FIELD_REAL, -2, 2, IN_SAMPLING(frequency_penalty), NULL, NULL},
    {"seed", BOTH_OPENAI, WANE__FIELD_READ, 0, 0, 0, read_seed, NULL},
    {"wane_draft", ANY, WANE__FIELD_READ, 0, 0, 0, read_draft, NULL},
    {"wane_kind", ANY, WANE__FIELD_READ, 0, 0, 0, read_kind, NULL},
    {"sfcl_mode", ANY, WANE__FIELD_TEXT, 0, 0, IN_CALL(mode), NULL, NULL},
    {"wane_domain", ANY, WANE__FIELD_TEXT, 0, 0, IN_CALL(domain), NULL, NULL},
    {"wane_hold", ANY, WANE__FIELD_TEXT, 0, 0, IN_CALL(hold), NULL, NULL},
    {"wane_trace", ANY, WANE__FIELD_BOOL, 0, 0, IN_CALL(trace), NULL, NULL},
    {"wane_memo", ANY, WANE__FIELD_READ, 0, 0, 0, read_memo, NULL},
    {"wane_prepare", ANY & ~(unsigned)WANE__API_TEXT, WANE__FIELD_READ, 0, 0, 0, read_prepare, NULL},
    {"wane_without", ANY, WANE__FIELD_READ, 0, 0, 0, read_without, NULL},
    {"wane_line", ANY, WANE__FIELD_TEXT, 0, 0, IN_CALL(line), NULL, NULL},
    {"metadata", BOTH_MESSAGES, WANE__FIELD_READ, 0, 0, 0, read_user, NULL},
    {"metadata", BOTH_OPENAI, WANE__FIELD_NOTHING, 0, 0, 0, NULL, NULL},
    {"user", BOTH_OPENAI, WANE__FIELD_READ, 0, 0, 0, read_user, NULL},
    {"service_tier", ANY, WANE__FIELD_NOTHING, 0, 0, 0, NULL, NULL},
    {"tools", ANY & ~(unsigned)WANE__API_TEXT, WANE__FIELD_ABSENT, 0, 0, 0, NULL, "tools are not supported"},
    {NULL, 0, WANE__FIELD_NOTHING, 0, 0, 0, NULL, NULL},
};

static const struct wane__field *find(const struct wane__field *table, const char *name, unsigned api) {
    for (; table->name != NULL; table++) {
        if ((table->apis & api) != 0 && strcmp(table->name, name) == 0) return table;
    }
    return NULL;
}

static bool wrong(const struct wane__field *field, const json_t *value, const char *allowed,
                  struct wane__problem *problem) {
    char shown[80];
    return wane__problem(problem, WANE__PROBLEM_INVALID, field->name, "%s: %s is not allowed; it must be %s",
                         field->name, wane__json_show(value, shown, sizeof shown), allowed);
}

static bool read_number(void *at, const struct wane__field *field, const json_t *value,
                        struct wane__problem *problem) {
    bool whole = field->kind == WANE__FIELD_INT;
    char allowed[80];
    if (whole && field->high >= INT_MAX) {
        snprintf(allowed, sizeof allowed, "an integer of at least %g", field->low);
    } else {
        snprintf(allowed, sizeof allowed, "%s from %g to %g", whole ? "an integer" : "a number", field->low,
                 field->high);
    }
    bool fits = whole ? json_is_integer(value) : json_is_number(value);
    if (!fits) return wrong(field, value, allowed, problem);
    double number = json_number_value(value);
    if (!(number >= field->low && number <= field->high)) return wrong(field, value, allowed, problem);
    if (whole) {
        *(int *)at = (int)number;
    } else {
        *(float *)at = (float)number;
    }
    return true;
}

/* What a client sends for "none of it": nothing is lost by passing it over. */
static bool is_empty(const json_t *value) {
    return json_is_false(value) || (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

/* The value as compact JSON, compared with the note: `1`, `false`, `{"type":"text"}`. */
static bool is_spelled(const json_t *value, const char *note) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    bool same = text != NULL && strcmp(text, note) == 0;
    free(text);
    return same;
}

static bool read_field(struct wane__call *call, const struct wane__field *field, const json_t *value,
                       struct wane__problem *problem) {
    void *at = (char *)call + field->offset;
    switch (field->kind) {
    case WANE__FIELD_INT:
    case WANE__FIELD_REAL: return read_number(at, field, value, problem);
    case WANE__FIELD_BOOL:
        if (!json_is_boolean(value)) return wrong(field, value, "true or false", problem);
        *(bool *)at = json_is_true(value);
        return true;
    case WANE__FIELD_TEXT:
        if (!json_is_string(value)) return wrong(field, value, "a string", problem);
        *(const char **)at = json_string_value(value);
        return true;
    case WANE__FIELD_READ: return field->read(call, value, problem);
    case WANE__FIELD_NOTHING: return true;
    case WANE__FIELD_ABSENT:
        if (is_empty(value)) return true;
        return wane__problem(problem, WANE__PROBLEM_INVALID, field->name, "%s: %s; leave the field out",
                             field->name, field->note);
    case WANE__FIELD_ONLY: return is_spelled(value, field->note) || wrong(field, value, field->note, problem);
    }
    return true;
}

bool wane__fields_read(struct wane__call *call, const struct wane__field *own,
                       struct wane__problem *problem) {
    const char *name;
    json_t *value;
    json_object_foreach(call->root, name, value) {
        const struct wane__field *field = find(own, name, call->api);
        if (field == NULL) field = find(common, name, call->api);
        if (json_is_null(value)) continue;
        if (field == NULL) {
            return wane__problem(problem, WANE__PROBLEM_INVALID, name,
                                 "%.64s: this field is not known here (extra inputs are not permitted); "
                                 "docs/api.md lists the fields",
                                 name);
        }
        if (!read_field(call, field, value, problem)) return false;
    }
    return true;
}

bool wane__fields_only(const json_t *object, const char *where, const char *const *allowed,
                       struct wane__problem *problem) {
    const char *name;
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        if (json_is_null(value)) continue;
        size_t i = 0;
        while (allowed[i] != NULL && strcmp(allowed[i], name) != 0) i++;
        if (allowed[i] == NULL) {
            return wane__problem(problem, WANE__PROBLEM_INVALID, where,
                                 "%s.%.64s: this field is not supported (extra inputs are not permitted)",
                                 where, name);
        }
    }
    return true;
}

static bool add_stop(struct wane__call *call, const char *field, const json_t *value,
                     struct wane__problem *problem) {
    char shown[80];
    size_t size = json_is_string(value) ? json_string_length(value) : 0;
    if (size == 0 || size > 1024) {
        return wane__problem(problem, WANE__PROBLEM_INVALID, field,
                             "%s: %s is not allowed; a stop string has 1 to 1024 bytes", field,
                             wane__json_show(value, shown, sizeof shown));
    }
    if (call->stop_count == WANE__MAX_STOPS) {
        return wane__problem(problem, WANE__PROBLEM_INVALID, field, "%s: more than %d strings", field,
                             WANE__MAX_STOPS);
    }
    call->stops[call->stop_count++] = json_string_value(value);
    return true;
}

bool wane__fields_stops(struct wane__call *call, const char *field, const json_t *value,
                        struct wane__problem *problem) {
    if (!json_is_array(value)) {
        char shown[80];
        return wane__problem(problem, WANE__PROBLEM_INVALID, field,
                             "%s: %s is not allowed; it must be an array of strings", field,
                             wane__json_show(value, shown, sizeof shown));
    }
    size_t index;
    const json_t *item;
    json_array_foreach(value, index, item) {
        if (!add_stop(call, field, item, problem)) return false;
    }
    return true;
}

bool wane__fields_missing(const char *field, const char *allowed, struct wane__problem *problem) {
    return wane__problem(problem, WANE__PROBLEM_INVALID, field, "%s: this field is required; it must be %s",
                         field, allowed);
}
