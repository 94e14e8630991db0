/*
 * http_domain.c - is a request's text of the domain that its SSP names? Owns the counts of that; refuses to change what was named unless
 * the server was told to (--ssp-domain auto), and never without saying so in the reply's header.
 */
#include "core/count.h"
#include "server/http.h"

#include <stdio.h>
#include <string.h>

/* What the classifier looks at of a longer text is its beginning and its end: more than this need not be gathered. */
#define GATHER_BYTES ((size_t)16 << 10)

/* What the user said, the last message first: a list of n-grams does not mind. */
static void gather(const struct wane__call *call, struct wane__buf *text) {
    if (call->prompt != NULL) wane__buf_append(text, call->prompt, call->prompt_size);
    for (size_t i = call->message_count; i-- > 0 && text->size < GATHER_BYTES;) {
        const wane_message *m = &call->messages[i];
        if (strcmp(m->role, "user") != 0) continue;
        wane__buf_append(text, m->content, m->content_size);
        wane__buf_text(text, "\n");
    }
}

static bool look(const struct wane__exchange *exchange, wane_classification *seen) {
    struct wane__buf text = {0};
    gather(&exchange->call, &text);
    bool fine = !text.failed && text.size > 0 &&
                wane_classify(exchange->server->classifier, text.data, text.size, seen, NULL) == WANE_OK;
    wane__buf_free(&text);
    return fine;
}

static void count(struct wane_server *server, const wane_classification *seen, bool mismatch) {
    int which = seen->count; /* none */
    for (int i = 0; i < seen->count; i++)
        if (strcmp(seen->all[i].domain, seen->domain) == 0) which = i;
    wane__count(&server->domain_seen[which]);
    if (mismatch) wane__count(&server->domain_mismatch[which]);
}

const char *wane__http_domain(struct wane__exchange *exchange, const char *given) {
    struct wane_server *server = exchange->server;
    wane_classification seen;
    bool automatic = server->ssp_domain == WANE_SSP_DOMAIN_AUTO;
    exchange->domain_note[0] = '\0';
    if (server->classifier == NULL || server->ssp_domain == WANE_SSP_DOMAIN_GIVEN) return given;
    if ((given == NULL && !automatic) || !look(exchange, &seen)) return given;
    bool sure = strcmp(seen.domain, "none") != 0;
    bool mismatch = sure && given != NULL && strcmp(given, seen.domain) != 0;
    count(server, &seen, mismatch);
    if (mismatch)
        snprintf(exchange->domain_note, sizeof exchange->domain_note, "%.24s; looks like %s%s", given,
                 seen.domain, automatic ? ", which is used" : "");
    return automatic && sure ? seen.domain : given;
}

void wane__http_domain_metrics(struct wane_server *server, struct wane__buf *out) {
    static const char seen[] = "wane_domain_seen_total", mismatch[] = "wane_ssp_domain_mismatch_total";
    wane_classification names;
    if (server->classifier == NULL || wane_classify(server->classifier, "", 0, &names, NULL) != WANE_OK)
        return;
    wane__metric_head(out, seen, "counter", "Requests whose domain was looked at, by what it looked like.");
    for (int i = 0; i <= names.count; i++)
        wane__buf_format(out, "%s{domain=\"%s\"} %llu\n", seen,
                         i < names.count ? names.all[i].domain : "none",
                         (unsigned long long)atomic_load(&server->domain_seen[i]));
    wane__metric_head(out, mismatch, "counter",
                      "Requests whose SSP names another domain than their text looks like, by the latter.");
    for (int i = 0; i < names.count; i++)
        wane__buf_format(out, "%s{domain=\"%s\"} %llu\n", mismatch, names.all[i].domain,
                         (unsigned long long)atomic_load(&server->domain_mismatch[i]));
}
