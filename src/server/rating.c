/* rating.c - reads the body of a rating; see rating.h. Refuses fields that it does not know, as the other routes do. */
#include "server/rating.h"

#include "server/json.h"

#include <string.h>

static bool refuse(struct wane__problem *problem, const char *field, const json_t *value,
                   const char *allowed) {
    char shown[64];
    return wane__problem(problem, WANE__PROBLEM_INVALID, field, "%s: %s is not allowed; it must be %s", field,
                         value != NULL ? wane__json_show(value, shown, sizeof shown) : "nothing", allowed);
}

static bool read_value(const json_t *value, double *rating, struct wane__problem *problem) {
    const char *word = json_string_value(value);
    if (word != NULL && strcmp(word, "up") == 0)
        *rating = 1;
    else if (word != NULL && strcmp(word, "down") == 0)
        *rating = -1;
    else if (json_is_number(value) && json_number_value(value) >= -1 && json_number_value(value) <= 1)
        *rating = json_number_value(value);
    else
        return refuse(problem, "rating", value, "\"up\", \"down\" or a number from -1 to 1");
    return true;
}

static bool is_there(const json_t *value) {
    return value != NULL && !json_is_null(value);
}

static bool check_names(json_t *root, struct wane__problem *problem) {
    static const char *const known[] = {"response_id", "id", "rating", "comment"};
    const char *name;
    json_t *value;
    json_object_foreach(root, name, value) {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found = found || strcmp(name, known[i]) == 0;
        if (!found)
            return wane__problem(problem, WANE__PROBLEM_INVALID, name,
                                 "%.60s: this field is not known here; a rating has response_id, rating and "
                                 "comment",
                                 name);
    }
    return true;
}

bool wane__rating_parse(struct wane__rating *rating, const char *body, size_t size,
                        struct wane__problem *problem) {
    *rating = (struct wane__rating){.root = wane__json_parse(body, size, problem)};
    if (rating->root == NULL || !check_names(rating->root, problem)) return false;
    const json_t *id = json_object_get(rating->root, "response_id");
    const json_t *comment = json_object_get(rating->root, "comment");
    if (!is_there(id)) id = json_object_get(rating->root, "id");
    size_t length = json_string_length(id);
    if (length == 0 || length > WANE__RATING_ID_MOST)
        return refuse(problem, "response_id", id, "the id of a reply, such as msg_… or chatcmpl-…");
    if (is_there(comment) &&
        (!json_is_string(comment) || json_string_length(comment) > WANE__RATING_COMMENT_MOST))
        return refuse(problem, "comment", comment, "a text of at most 4096 bytes");
    rating->id = json_string_value(id);
    rating->comment = json_string_value(comment);
    return read_value(json_object_get(rating->root, "rating"), &rating->value, problem);
}

void wane__rating_free(struct wane__rating *rating) {
    json_decref(rating->root);
    *rating = (struct wane__rating){0};
}
