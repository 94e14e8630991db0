/*
 * json_fields.h - the fields of a request's top level as tables: one row says name, APIs, type, range and effect.
 *
 * A field that no table holds is refused by name. `null` is the same as not there, everywhere: it cannot change the
 * output, and clients send it for what their user left unset.
 */
#ifndef WANE_SERVER_JSON_FIELDS_H
#define WANE_SERVER_JSON_FIELDS_H

#include "server/http_call.h"

enum wane__field_kind {
    WANE__FIELD_INT,     /* int within low..high                                  */
    WANE__FIELD_REAL,    /* float within low..high                                */
    WANE__FIELD_BOOL,    /* bool                                                  */
    WANE__FIELD_TEXT,    /* const char *, lives as long as the body               */
    WANE__FIELD_READ,    /* `read` does it                                        */
    WANE__FIELD_NOTHING, /* accepted: cannot change the output                    */
    WANE__FIELD_ABSENT,  /* only null, false, "", [] and {}: wane does not have it */
    WANE__FIELD_ONLY     /* only the one value that `note` spells                 */
};

struct wane__field {
    const char *name;
    unsigned apis;
    enum wane__field_kind kind;
    double low, high;
    size_t offset; /* within struct wane__call */
    bool (*read)(struct wane__call *call, const json_t *value, struct wane__problem *problem);
    const char *note; /* ABSENT: what to say; ONLY: the value */
};

/* Walk the top level of `call->root` over the common table and `own` (ended by a NULL name). */
bool wane__fields_read(struct wane__call *call, const struct wane__field *own, struct wane__problem *problem);

/* `value` must be of the keys named in `allowed` (NULL-ended); null values pass. `where` names the object. */
bool wane__fields_only(const json_t *object, const char *where, const char *const *allowed,
                       struct wane__problem *problem);
/* The stop strings of either API, named `field` in messages. */
bool wane__fields_stops(struct wane__call *call, const char *field, const json_t *value,
                        struct wane__problem *problem);
/* "required" in one wording. */
bool wane__fields_missing(const char *field, const char *allowed, struct wane__problem *problem);

/* The parsers of the two families; `call->root` is there. */
bool wane__anthropic_parse(struct wane__call *call, struct wane__problem *problem);
bool wane__openai_parse(struct wane__call *call, const struct wane__call_defaults *defaults,
                        struct wane__problem *problem);

#endif
