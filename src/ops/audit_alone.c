/*
 * audit_alone.c - the audit log for who decodes without a server of wane's: the public handle of the writer. Refuses what no record has, so that
 * one caller's mistake is its own and no log's.
 */
#include "core/error.h"
#include "core/memory.h"
#include "ops/audit.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MOST ((size_t)1 << 20)

struct wane_auditor {
    struct wane__audit *log;
};

static const bool is_number[WANE_AUDIT_FIELDS] = {
    [WANE_AUDIT_SEQ] = true,
    [WANE_AUDIT_AT] = true,
    [WANE_AUDIT_STATUS] = true,
    [WANE_AUDIT_PROMPT_TOKENS] = true,
    [WANE_AUDIT_REUSED_TOKENS] = true,
    [WANE_AUDIT_REPLY_TOKENS] = true,
    [WANE_AUDIT_MS] = true,
    [WANE_AUDIT_SLMT_USED] = true,
    [WANE_AUDIT_SLMT_TAKEN] = true,
    [WANE_AUDIT_SHADOW] = true,
    [WANE_AUDIT_DIVERGENCES] = true,
    [WANE_AUDIT_LOST] = true,
};

int wane_auditor_open(const wane_audit_options *options, const char *start, const char *table,
                      wane_auditor **auditor, wane_error *error) {
    wane__clear(error);
    *auditor = NULL;
    if (options == NULL || options->size != sizeof *options)
        return wane__fail(error, WANE_EINVAL,
                          "The audit's options were not set up by wane_audit_options_init.");
    if (options->path == NULL || options->path[0] == '\0')
        return wane__fail(error, WANE_EINVAL, "No file was named for the audit log.");
    if (options->failure != WANE_AUDIT_SERVE && options->failure != WANE_AUDIT_STOP)
        return wane__fail(error, WANE_EINVAL, "failure is %d; it must be one of WANE_AUDIT_SERVE and _STOP.",
                          options->failure);
    wane_auditor *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for an audit log.");
    const struct wane__audit_write_options write = {.path = options->path,
                                                    .key_file = options->key_file,
                                                    .failure = options->failure,
                                                    .start = start,
                                                    .table = table};
    int status = wane__audit_open(&write, &made->log, error);
    if (status != WANE_OK) {
        wane__free(made);
        return status;
    }
    *auditor = made;
    return WANE_OK;
}

void wane_auditor_close(wane_auditor *auditor) {
    if (auditor == NULL) return;
    wane__audit_close(auditor->log);
    wane__free(auditor);
}

int wane_auditor_admit(wane_auditor *auditor, wane_error *error) {
    wane__clear(error);
    return wane__audit_admit(auditor->log, error) ? WANE_OK : WANE_EIO;
}

static int check(const wane_audit_value field[WANE_AUDIT_FIELDS], wane_error *error) {
    for (int i = WANE_AUDIT_AT; i < WANE_AUDIT_FIELDS; i++) {
        const wane_audit_value *v = &field[i];
        const char *name = wane_audit_field_name(i);
        if (v->type == WANE_AUDIT_NONE) continue;
        if (v->type != (is_number[i] ? WANE_AUDIT_NUMBER : WANE_AUDIT_STRING))
            return wane__fail(error, WANE_EINVAL, "An audit record's %s must be a %s.", name,
                              is_number[i] ? "number" : "text");
        if (is_number[i]) continue;
        if (v->text == NULL || v->size > TEXT_MOST || memchr(v->text, '\0', v->size) != NULL)
            return wane__fail(error, WANE_EINVAL,
                              "An audit record's %s has %zu bytes; it must be text of at most %zu bytes "
                              "without a zero.",
                              name, v->size, TEXT_MOST);
    }
    return WANE_OK;
}

static struct wane__audit_note *note_of(const wane_audit_value field[WANE_AUDIT_FIELDS], const char *event) {
    struct wane__audit_note *note = wane__audit_note_new(event);
    for (int i = WANE_AUDIT_AT; note != NULL && i < WANE_AUDIT_FIELDS; i++) {
        if (i == WANE_AUDIT_EVENT || field[i].type == WANE_AUDIT_NONE) continue;
        if (is_number[i])
            wane__audit_note_number(note, i, field[i].number);
        else
            wane__audit_note_bytes(note, i, field[i].text, field[i].size);
    }
    return note;
}

int wane_auditor_put(wane_auditor *auditor, const wane_audit_value field[WANE_AUDIT_FIELDS],
                     wane_error *error) {
    char event[32] = "request";
    wane__clear(error);
    const wane_audit_value *named = &field[WANE_AUDIT_EVENT];
    int status = check(field, error);
    if (status == WANE_OK && named->type == WANE_AUDIT_STRING) {
        if (named->size == 0 || named->size >= sizeof event)
            status =
                wane__fail(error, WANE_EINVAL, "An audit record's event must be a name of 1 to %zu bytes.",
                           sizeof event - 1);
        else
            snprintf(event, sizeof event, "%.*s", (int)named->size, named->text);
    }
    bool request = status != WANE_OK || strcmp(event, "request") == 0;
    struct wane__audit_note *note = status == WANE_OK ? note_of(field, event) : NULL;
    if (status == WANE_OK && note == NULL)
        status = wane__fail(error, WANE_ENOMEM, "No memory for an audit record.");
    if (request)
        wane__audit_put(auditor->log, note);
    else if (note != NULL)
        wane__audit_tell(auditor->log, note);
    return status;
}

void wane_auditor_flush(wane_auditor *auditor) {
    wane__audit_flush(auditor->log);
}

void wane_auditor_get_state(wane_auditor *auditor, wane_auditor_state *state) {
    struct wane__audit_state s;
    wane__audit_get_state(auditor->log, &s);
    *state = (wane_auditor_state){.ok = s.ok,
                                  .records = s.records,
                                  .dropped = s.dropped,
                                  .failures = s.failures,
                                  .waiting = s.waiting,
                                  .bytes = s.bytes};
    snprintf(state->reason, sizeof state->reason, "%s", s.reason);
}
