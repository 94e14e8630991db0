/* json_of.h - members of a JSON object that may be missing, or be something else. */
#ifndef WANE_CLI_JSON_OF_H
#define WANE_CLI_JSON_OF_H

#include <jansson.h>
#include <math.h>

/* "" where it is no string; the object's. */
static inline const char *json_text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

/* NAN where it is no number. */
static inline double json_number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

#endif
