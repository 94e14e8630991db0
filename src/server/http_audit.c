/*
 * http_audit.c - what a server's audit log says of requests, and of what happens to the server itself.
 *
 *     admitted ─► note, with what is known before ─► ticket … its last holder lets go ─► what became of it ─► queue of src/ops/
 *        └─ refused before it had a ticket: the same note, at the end of the exchange
 *
 * Owns notes until they are queued. A request's note is made on its own thread; at its end a few fields are added, mostly on that thread, too. Tables,
 * breakers and the head are looked at twice a second by the log's own thread: what changed becomes a record.
 */
#include "server/http_audit.h"

#include "core/error.h"
#include "core/memory.h"
#include "model.h"
#include "server/alerts.h"
#include "server/http.h"
#include "server/json.h"
#include "server/route.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_MOST = 64 << 10 };

/* What was last said of the server. */
struct sights {
    wane_table_state table;
    uint64_t trips;
    bool out, certified;
    char head[500];
};

struct wane__server_audit {
    struct wane__audit *log;
    bool text;
    struct sights seen; /* the writer's thread */
};

/* A request under way. */
struct wane__audited {
    struct wane_server *server;
    struct wane__audit_note *note;
    struct wane__buf said;
    bool said_enough, prompt_cut;
    int status;
};

/* ------------------------------------------------------------------- the server */

static void look(struct wane_server *server, struct sights *s) {
    wane_gate_state gate;
    wane_head_state head;
    wane_model_get_table_state(server->model, &s->table);
    wane_model_get_gate_state(server->model, &gate);
    wane_model_get_head_state(server->model, &head);
    s->trips = gate.breaker_trips;
    s->out = gate.breaker_out;
    s->certified = head.certified;
    snprintf(s->head, sizeof s->head, "%s", head.reason);
}

static void put_string(struct wane__buf *out, const char *text) {
    wane__json_string(out, text, strlen(text));
}

static void tell(struct wane_server *server, const char *event, const char *table,
                 const struct wane__buf *detail) {
    struct wane__audit_note *note = wane__audit_note_new(event);
    if (note != NULL && table != NULL && table[0] != '\0')
        wane__audit_note_text(note, WANE_AUDIT_TABLE, table);
    if (note != NULL && detail->size > 0)
        wane__audit_note_bytes(note, WANE_AUDIT_DETAIL, detail->data, detail->size);
    wane__audit_tell(server->audit->log, note);
}

static void tell_table(struct wane_server *server, const wane_table_state *t) {
    struct wane__buf out = {0};
    wane__buf_format(&out, "{\"on\":%s,\"verified\":%s,\"reloads\":%llu,\"failures\":%llu,\"reason\":",
                     t->on ? "true" : "false", t->verified ? "true" : "false", (unsigned long long)t->reloads,
                     (unsigned long long)t->failures);
    put_string(&out, t->reason);
    wane__buf_text(&out, "}");
    tell(server, "table", t->digest, &out);
    wane__buf_free(&out);
}

static void tell_breaker(struct wane_server *server, const char *which, bool out, uint64_t trips,
                         const char *why) {
    struct wane__buf text = {0};
    wane__buf_format(&text, "{\"breaker\":\"%s\",\"out\":%s,\"trips\":%llu,\"reason\":", which,
                     out ? "true" : "false", (unsigned long long)trips);
    put_string(&text, why);
    wane__buf_text(&text, "}");
    tell(server, "breaker", NULL, &text);
    wane__buf_free(&text);
}

/* On the writer's thread, twice a second. */
static void tick(void *user) {
    struct wane_server *server = user;
    struct sights now, *seen = &server->audit->seen;
    look(server, &now);
    const wane_table_state *a = &now.table, *b = &seen->table;
    if (a->on != b->on || a->reloads != b->reloads || a->failures != b->failures ||
        strcmp(a->digest, b->digest) != 0)
        tell_table(server, a);
    if (now.trips != seen->trips || now.out != seen->out)
        tell_breaker(server, "wakes", now.out, now.trips, "");
    if (strcmp(now.head, seen->head) != 0) tell_breaker(server, "head", now.head[0] != '\0', 0, now.head);
    *seen = now;
}

static void describe_start(struct wane_server *server, const struct sights *s, struct wane__buf *out) {
    const wane_model_facts *facts = wane_model_get_facts(server->model);
    wane__buf_format(out, "{\"version\":\"%s\",\"engine\":", wane_version());
    put_string(out, facts->engine);
    wane__buf_text(out, ",\"model\":");
    put_string(out, facts->name);
    wane__buf_format(
        out, ",\"model_bytes\":%llu,\"fingerprint\":\"%s\",\"mode\":\"%s\",\"head\":\"%s\",\"pid\":%ld}",
        (unsigned long long)facts->file_bytes, server->fingerprint, wane_mode_name(server->quality.mode),
        s->certified ? "certified" : "dense", (long)getpid());
}

static void on_alert(void *user, const struct wane__alert_change *change);

int wane__server_open_audit(struct wane_server *server, const wane_audit_options *options,
                            wane_error *error) {
    if (options == NULL) return WANE_OK;
    if (options->size != sizeof *options || options->path == NULL || options->path[0] == '\0')
        return wane__fail(error, WANE_EINVAL, "the audit options were not initialised, or name no file");
    if (options->failure != WANE_AUDIT_SERVE && options->failure != WANE_AUDIT_STOP)
        return wane__fail(error, WANE_EINVAL,
                          "audit: the failure is %d; it must be WANE_AUDIT_SERVE or WANE_AUDIT_STOP",
                          options->failure);
    struct wane__server_audit *audit = wane__alloc_zero(1, sizeof *audit);
    struct wane__buf start = {0};
    if (audit == NULL) return wane__fail(error, WANE_ENOMEM, "no memory for the server");
    server->audit = audit;
    audit->text = options->text;
    look(server, &audit->seen);
    describe_start(server, &audit->seen, &start);
    const struct wane__audit_write_options write = {.path = options->path,
                                                    .key_file = options->key_file,
                                                    .failure = options->failure,
                                                    .start = start.data,
                                                    .table = audit->seen.table.digest,
                                                    .log = &server->log};
    int code = start.failed ? wane__fail(error, WANE_ENOMEM, "no memory for the server")
                            : wane__audit_open(&write, &audit->log, error);
    wane__buf_free(&start);
    if (code != WANE_OK) return code;
    wane__audit_set_tick(audit->log, tick, server);
    if (wane__server_board(server) != NULL) wane__board_listen(wane__server_board(server), on_alert, server);
    return code;
}

void wane__server_close_audit(struct wane_server *server) {
    if (server->audit == NULL) return;
    wane__audit_close(server->audit->log);
    wane__free(server->audit);
    server->audit = NULL;
}

void wane_server_audit(wane_server *server, const char *event, const char *detail) {
    if (server == NULL || server->audit == NULL || event == NULL) return;
    struct wane__audit_note *note = wane__audit_note_new(event);
    if (note != NULL) wane__audit_note_text(note, WANE_AUDIT_DETAIL, detail);
    wane__audit_tell(server->audit->log, note);
}

void wane__server_audit_step(struct wane_server *server, const char *feature, bool forward, const char *why) {
    if (server->audit == NULL) return;
    struct wane__buf out = {0};
    wane__buf_format(&out, "{\"feature\":\"%s\",\"step\":\"%s\",\"why\":", feature,
                     forward ? "forward" : "back");
    put_string(&out, why);
    wane__buf_text(&out, "}");
    tell(server, "rollout", NULL, &out);
    wane__buf_free(&out);
}

/* Under the board's lock: it is queued, and no more. */
static void on_alert(void *user, const struct wane__alert_change *change) {
    struct wane_server *server = user;
    struct wane__buf out = {0};
    wane__buf_format(&out, "{\"alert\":\"%s\",\"raised\":%s,\"reason\":", wane__alert_name(change->alert),
                     change->view.raised ? "true" : "false");
    put_string(&out, change->view.reason);
    wane__buf_text(&out, "}");
    tell(server, "alert", NULL, &out);
    wane__buf_free(&out);
}

bool wane__server_audit_fine(struct wane_server *server, char *why, size_t room) {
    struct wane__audit_state state;
    if (server->audit == NULL || server->audit->log == NULL) return true;
    wane__audit_get_state(server->audit->log, &state);
    if (!state.ok && why != NULL) snprintf(why, room, "%s", state.reason);
    return state.ok;
}

bool wane__server_audit_stops(struct wane_server *server) {
    return server->audit != NULL && server->audit->log != NULL && wane__audit_is_strict(server->audit->log) &&
           !wane__server_audit_fine(server, NULL, 0);
}

/* ------------------------------------------------------------------- a request */

bool wane__http_audit_admit(struct wane__exchange *x) {
    wane_error error = {0};
    if (x->server->audit == NULL) return true;
    if (!wane__audit_admit(x->server->audit->log, &error))
        return wane__problem(&x->problem, WANE__PROBLEM_AUDIT, NULL, "%s", error.text);
    x->owes_record = true;
    return true;
}

static const char *api_name(const struct wane__exchange *x) {
    switch (x->route->api) {
    case WANE__API_MESSAGES: return "messages";
    case WANE__API_CHAT: return "chat";
    case WANE__API_TEXT: return "completions";
    default: return "?";
    }
}

/* Who asked, and for what; no more than the headers and the key say. */
static struct wane__audit_note *make_note(const struct wane__exchange *x) {
    struct wane__audit_note *note = wane__audit_note_new("request");
    if (note == NULL) return NULL;
    wane__audit_note_text(note, WANE_AUDIT_REQUEST, x->request_id);
    if (x->reply_id[0] != '\0') wane__audit_note_text(note, WANE_AUDIT_REPLY, x->reply_id);
    if (x->key.name != NULL && x->key.name[0] != '\0')
        wane__audit_note_text(note, WANE_AUDIT_KEY, x->key.name);
    if (x->key.tenant != NULL && x->key.tenant[0] != '\0')
        wane__audit_note_text(note, WANE_AUDIT_TENANT, x->key.tenant);
    wane__audit_note_text(note, WANE_AUDIT_API, api_name(x));
    return note;
}

static void put_ssp(const wane_ssp *ssp, struct wane__buf *out) {
    int pairs = 0;
    wane__buf_text(out, ",\"ssp\":{");
    for (int key = 0; key < WANE_SSP_KEYS; key++) {
        const char *value = wane_ssp_value_name(key, ssp->value[key]);
        if (value != NULL)
            wane__buf_format(out, "%s\"%s\":\"%s\"", pairs++ > 0 ? "," : "", wane_ssp_key_name(key), value);
    }
    wane__buf_text(out, "}");
}

/* What the answer was to be like: nothing in mode OFF without an instruction. */
static void note_policy(const struct wane__exchange *x, struct wane__audit_note *note) {
    const struct wane__call *call = &x->call;
    const char *domain = call->domain != NULL ? call->domain : wane__http_header(x, "wane-domain");
    struct wane__buf out = {0};
    if (domain == NULL) domain = x->key.domain;
    if (x->quality.mode == WANE_MODE_OFF && !call->ssp.given) return;
    wane__buf_format(&out, "{\"governor\":%s,\"answers\":%d", x->quality.governor ? "true" : "false",
                     x->quality.answers);
    if (domain != NULL) {
        wane__buf_text(&out, ",\"domain\":");
        put_string(&out, domain);
    }
    if (call->ssp.given) put_ssp(&call->ssp, &out);
    wane__buf_text(&out, "}");
    if (!out.failed) wane__audit_note_bytes(note, WANE_AUDIT_POLICY, out.data, out.size);
    wane__buf_free(&out);
}

/* What could have a part in the answer, and the request's side of a rollout. */
static void note_features(const struct wane__exchange *x, struct wane__audit_note *note) {
    wane_model *model = x->server->model;
    wane_head_state head;
    wane_draft_state drafts;
    wane_model_get_head_state(model, &head);
    wane_model_get_draft_state(model, &drafts);
    bool judged = x->quality.mode == WANE_MODE_WANE;
    unsigned without = x->call.generation.without | wane_model_switched_off(model);
    const struct {
        int feature;
        bool on;
    } list[] = {{WANE_FEATURE_HEAD, head.certified},
                {WANE_FEATURE_TABLE, model->rows.table != NULL},
                {WANE_FEATURE_DRAFT, drafts.on && !x->call.generation.no_draft},
                {WANE_FEATURE_MEMO, model->memo != NULL && !x->call.generation.no_memo},
                {WANE_FEATURE_GATE, judged && model->gate.gate != NULL},
                {WANE_FEATURE_GOVERNOR, judged && x->quality.governor}};
    struct wane__buf out = {0};
    int some = 0;
    wane__buf_text(&out, "{\"on\":[");
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (list[i].on && (without & 1u << list[i].feature) == 0)
            wane__buf_format(&out, "%s\"%s\"", some++ > 0 ? "," : "", wane_feature_name(list[i].feature));
    wane__buf_text(&out, "]");
    if (x->side.header[0] != '\0') {
        wane__buf_text(&out, ",\"rollout\":");
        put_string(&out, x->side.header);
    }
    wane__buf_text(&out, "}");
    if (!out.failed) wane__audit_note_bytes(note, WANE_AUDIT_FEATURES, out.data, out.size);
    wane__buf_free(&out);
}

/* The end of a text, from the beginning of a character on. */
static size_t skip_to(const char *text, size_t size, size_t most) {
    size_t at = size > most ? size - most : 0;
    while (at > 0 && at < size && ((unsigned char)text[at] & 0xc0) == 0x80) at++;
    return at;
}

/* Its last 64 KiB: what was asked stands at the end. */
static void note_prompt(struct wane__audited *r, const struct wane__call *call) {
    struct wane__buf text = {0};
    if (call->prompt != NULL) wane__buf_append(&text, call->prompt, call->prompt_size);
    for (size_t i = 0; i < call->message_count; i++) {
        const wane_message *m = &call->messages[i];
        wane__buf_format(&text, "%s%s: ", i > 0 ? "\n" : "", m->role);
        wane__buf_append(&text, m->content, m->content_size);
    }
    size_t at = skip_to(text.data, text.size, TEXT_MOST);
    r->prompt_cut = at > 0;
    if (!text.failed && text.size > 0)
        wane__audit_note_bytes(r->note, WANE_AUDIT_PROMPT, text.data + at, text.size - at);
    wane__buf_free(&text);
}

/* What became of it; the note goes to the log, and the record with it. */
static void ended(void *user, const struct wane__ended *e);

void wane__http_audit_begin(struct wane__exchange *x, struct wane__watch *watch) {
    *watch = (struct wane__watch){0};
    if (!x->owes_record) return;
    struct wane__audited *r = wane__alloc_zero(1, sizeof *r);
    if (r == NULL) return; /* it still owes one, and will have none: a gap */
    r->server = x->server;
    r->note = make_note(x);
    r->said_enough = !x->server->audit->text;
    if (r->note != NULL) {
        wane__audit_note_text(r->note, WANE_AUDIT_MODE, wane_mode_name(x->quality.mode));
        note_policy(x, r->note);
        note_features(x, r->note);
        if (x->server->audit->text) note_prompt(r, &x->call);
    }
    x->audited = r;
    *watch = (struct wane__watch){ended, r};
}

void wane__http_audit_submitted(struct wane__exchange *x, bool accepted) {
    struct wane__audited *r = x->audited;
    if (r == NULL) return;
    if (accepted) {
        x->owes_record = false; /* the ticket does */
        return;
    }
    x->audited = NULL;
    wane__audit_note_free(r->note);
    wane__free(r);
}

void wane__http_audit_see(struct wane__exchange *x, const wane_event *event) {
    struct wane__audited *r = x->audited;
    if (r == NULL || r->said_enough || event->kind == WANE_EVENT_START) return;
    size_t size = event->text_size, room = TEXT_MOST - r->said.size;
    r->said_enough = size > room;
    if (size > room) {
        size = room;
        while (size > 0 && ((unsigned char)event->text[size] & 0xc0) == 0x80) size--;
    }
    wane__buf_append(&r->said, event->text, size);
}

static const char *finish_name(const struct wane__ended *e) {
    static const char *const words[] = {"none", "end", "stop", "length", "context", "fuse"};
    if (e->code == WANE_ECANCELLED) return "cancelled";
    if (e->code == WANE_ETIMEOUT) return "timeout";
    if (e->code == WANE_ESHUTDOWN) return "shutdown";
    if (e->code != WANE_OK) return "failed";
    return words[e->finish <= WANE_FINISH_FUSE ? e->finish : 0];
}

static const char *origin_name(int origin) {
    static const char *const names[] = {"dense", "certified", "none", "memo", "drafted"};
    return names[origin];
}

static const char *source_name(int source) {
    return source == 0 ? "absent" : wane_table_source(source);
}

static void note_account(struct wane__audit_note *note, const struct wane__account *a) {
    uint32_t origin[WANE__ACCOUNT_ORIGINS + 1];
    memcpy(origin, a->origin, sizeof a->origin);
    origin[WANE__ACCOUNT_ORIGINS] = a->drafted;
    wane__audit_note_counts(note, WANE_AUDIT_ORIGIN, origin_name, origin, WANE__ACCOUNT_ORIGINS + 1);
    if (a->table[0] != '\0') {
        wane__audit_note_text(note, WANE_AUDIT_TABLE, a->table);
        wane__audit_note_number(note, WANE_AUDIT_SLMT_USED, a->used);
        wane__audit_note_number(note, WANE_AUDIT_SLMT_TAKEN, a->taken);
        wane__audit_note_counts(note, WANE_AUDIT_SLMT_SOURCE, source_name, a->source, WANE__ACCOUNT_SOURCES);
    }
    wane__audit_note_counts(note, WANE_AUDIT_WAKES, wane_wake_name, a->wakes, WANE_WAKES);
    wane__audit_note_counts(note, WANE_AUDIT_STATES, wane_state_name, a->states, WANE_STATES);
    wane__audit_note_number(note, WANE_AUDIT_SHADOW, a->checked);
    wane__audit_note_number(note, WANE_AUDIT_DIVERGENCES, a->divergences);
}

/* What fits no field of its own. */
static void note_detail(const struct wane__audited *r, const struct wane__ended *e) {
    const struct wane__account *a = &e->account;
    char text[256] = "{";
    size_t used = 1;
    const struct {
        const char *name;
        bool is;
    } marks[] = {{"tables_changed", a->tables},
                 {"prompt_cut", r->prompt_cut},
                 {"text_cut", r->said_enough && r->said.size > 0}};
    if (e->code != WANE_OK)
        used += (size_t)snprintf(text + used, sizeof text - used, "\"code\":\"%s\"", wane_strerror(e->code));
    if (a->rejects > 0)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\"rejects\":%u", used > 1 ? "," : "",
                                 a->rejects);
    if (a->changed > 0)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\"corrected\":%u", used > 1 ? "," : "",
                                 a->changed);
    for (int i = 0; i < 3; i++)
        if (marks[i].is)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s\":true", used > 1 ? "," : "",
                                     marks[i].name);
    if (used > 1) wane__audit_note_format(r->note, WANE_AUDIT_DETAIL, "%s}", text);
}

static void note_end(const struct wane__audited *r, const struct wane__ended *e) {
    struct wane__audit_note *note = r->note;
    wane__audit_note_text(note, WANE_AUDIT_FINISH, finish_name(e));
    if (r->status != 0) wane__audit_note_number(note, WANE_AUDIT_STATUS, r->status);
    wane__audit_note_number(note, WANE_AUDIT_PROMPT_TOKENS, e->prompt_tokens);
    wane__audit_note_number(note, WANE_AUDIT_REUSED_TOKENS, e->reused_tokens);
    wane__audit_note_number(note, WANE_AUDIT_REPLY_TOKENS, e->reply_tokens);
    wane__audit_note_number(note, WANE_AUDIT_MS, (int64_t)e->ms);
    note_account(note, &e->account);
    if (e->finish == WANE_FINISH_FUSE) {
        wane__audit_note_text(note, WANE_AUDIT_FUSE, wane_fuse_name(e->fuse));
        wane__audit_note_text(note, WANE_AUDIT_FALLBACK, wane_fallback_name(e->fallback));
    }
    if (e->answers > 0)
        wane__audit_note_format(note, WANE_AUDIT_VOTE, "{\"answers\":%d,\"chosen\":%d}", e->answers,
                                e->chosen);
    note_detail(r, e);
    if (r->server->audit->text)
        wane__audit_note_bytes(note, WANE_AUDIT_TEXT, r->said.size > 0 ? r->said.data : "", r->said.size);
}

static void ended(void *user, const struct wane__ended *e) {
    struct wane__audited *r = user;
    if (r->note != NULL) note_end(r, e);
    if (r->note != NULL && r->said.failed) r->note->text.failed = true;
    wane__audit_put(r->server->audit->log, r->note);
    wane__buf_free(&r->said);
    wane__free(r);
}

/* Refused, or lost, before there was a ticket. The sentence may quote the request: the field's name is all that is kept of it. */
static void put_refused(struct wane__exchange *x, int status) {
    struct wane__audit_note *note = make_note(x);
    const struct wane__problem *p = &x->problem;
    if (note != NULL) {
        wane__audit_note_text(note, WANE_AUDIT_FINISH, status == 499 ? "cancelled" : "refused");
        wane__audit_note_number(note, WANE_AUDIT_STATUS, status);
        struct wane__buf out = {0};
        wane__buf_format(&out, "{\"problem\":\"%s\"", wane__problem_name(p));
        if (p->param[0] != '\0') {
            wane__buf_text(&out, ",\"field\":");
            put_string(&out, p->param);
        }
        wane__buf_text(&out, "}");
        if (p->kind != WANE__PROBLEM_NONE && !out.failed)
            wane__audit_note_bytes(note, WANE_AUDIT_DETAIL, out.data, out.size);
        wane__buf_free(&out);
    }
    wane__audit_put(x->server->audit->log, note);
}

void wane__http_audit_done(struct wane__exchange *x, int status) {
    if (x->audited != NULL) x->audited->status = status;
    x->audited = NULL; /* the ticket's from here on */
    if (x->owes_record && x->ticket != NULL)
        wane__audit_put(x->server->audit->log, NULL); /* there was no memory to write it down */
    else if (x->owes_record)
        put_refused(x, status);
    x->owes_record = false;
}

/* ------------------------------------------------------------------- metrics */

void wane__http_audit_metrics(struct wane_server *server, struct wane__buf *out) {
    static const char counter[] = "counter", gauge[] = "gauge";
    struct wane__audit_state s = {.ok = true};
    bool on = server->audit != NULL;
    if (on) wane__audit_get_state(server->audit->log, &s);
    wane__metric_whole(out, "wane_audit_on", gauge, "1 where an audit log is written.", on);
    wane__metric_whole(out, "wane_audit_ok", gauge,
                       "0 while records cannot be written; 1 without a log, too.", s.ok);
    wane__metric_whole(out, "wane_audit_records_total", counter, "Records on the disk.", s.records);
    wane__metric_whole(out, "wane_audit_dropped_total", counter,
                       "Records that are missing; the log has gaps that count them.", s.dropped);
    wane__metric_whole(out, "wane_audit_failures_total", counter, "Times that records could not be written.",
                       s.failures);
    wane__metric_whole(out, "wane_audit_queue", gauge, "Records that wait for the disk.", s.waiting);
    wane__metric_whole(out, "wane_audit_queue_bytes", gauge, "Memory that they take.", s.bytes);
}
