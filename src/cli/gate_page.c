/*
 * gate_page.c - a reply as a page: each token coloured by its verdict, what the gate saw on pointing at it. Nothing on it is fetched from
 * anywhere, and whatever the model said stays text.
 */
#include "gate_page.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char style[] =
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n<title>wane gate explain</title>\n<style>\n"
    ":root{color-scheme:light dark;--ink:#1c1c1c;--paper:#fdfdfb;--dim:#6b6b66;--line:#dcdcd6;"
    "--sure:#e2f1e2;--pass:#f4f4d8;--doubt:#f8d2c8;--table:#dbe7f6;--mark:#b3261e}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e8e6e1;--paper:#171816;--dim:#9b9a93;--line:#3a3a36;"
    "--sure:#1d3a22;--pass:#3a3a1a;--doubt:#5c241a;--table:#1b3150;--mark:#ff9d8f}}\n"
    "body{font:16px/1.6 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:46rem;"
    "margin:2rem auto;padding:0 1rem}\n"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;font:15px/1.9 ui-monospace,monospace;"
    "border:1px solid var(--line);border-radius:6px;padding:1rem}\n"
    "span{border-radius:3px}.sure{background:var(--sure)}.pass{background:var(--pass)}"
    ".reject{background:var(--doubt)}.table{background:var(--table)}\n"
    ".fork{border-left:3px solid var(--mark)}.wake{border-right:3px solid var(--mark)}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:0 1rem}dt{color:var(--dim)}dd{margin:0}\n"
    "</style>\n";

const char *gate_word(const wane_gate_token *token) {
    if (token->table) return "table";
    if (!token->judged) return "unknown";
    return token->reject ? "reject" : "pass";
}

/* Text on a page: nothing in it is markup, and what cannot be seen is shown. */
static void put_text(const char *text, size_t size) {
    for (size_t i = 0, from = 0; i <= size; i++) {
        unsigned char c = i < size ? (unsigned char)text[i] : 0;
        const char *instead = NULL;
        if (i < size && c == '&') instead = "&amp;";
        if (i < size && c == '<') instead = "&lt;";
        if (i < size && c == '>') instead = "&gt;";
        if (i < size && c == '"') instead = "&quot;";
        if (i < size && c == '\'') instead = "&#39;";
        if (i < size && ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f)) instead = "\xEF\xBF\xBD";
        if (instead == NULL && i < size) continue;
        out_text(text + from, i - from);
        if (instead != NULL) out_text(instead, strlen(instead));
        from = i + 1;
    }
}

static void put_row(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_row(const char *name, const char *format, ...) {
    char line[400];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    out_format("<dt>%s<dd>", name);
    put_text(line, strlen(line));
    out_text("\n", 1);
}

static void put_piece(const struct gate_story *s, const struct gate_piece *p) {
    const wane_gate_token *t = &p->verdict;
    const char *word = gate_word(t);
    bool sure = t->judged && !t->reject && t->odds >= t->tau + 1;
    out_format("<span class=\"%s%s%s\" title=\"token %d: %s", sure ? "sure" : word,
               t->index == s->end.first_reject ? " fork" : "", t->woke ? " wake" : "", t->index, word);
    if (t->judged) {
        out_format(", odds %.2f against %.2f, %s", (double)t->odds, (double)t->tau,
                   t->lut ? "looked up" : "by the net");
        if (t->reject) out_format(", %s", wane_wake_name(t->reason));
        if (t->forced && !t->reject) out_format(", forced check");
        out_format("&#10;shares");
        for (int i = 0; i < 5; i++) out_format(" %.4f", t->share[i]);
        out_format("&#10;bins of the gaps %d %d %d %d", t->bin[0], t->bin[1], t->bin[2], t->bin[3]);
    }
    if (t->index == s->end.first_reject) out_format("&#10;a vote would fork here");
    if (t->woke) out_format("&#10;the doubt budget is spent: the vote wakes");
    out_format("\">");
    put_text(p->text, p->size);
    out_format("</span>");
}

void gate_page(const struct gate_story *s) {
    const wane_gate_explanation *e = &s->end;
    out_text(style, sizeof style - 1);
    out_format("<h1>What the gate makes of this</h1>\n<dl>\n");
    put_row("model", "%s", s->model);
    put_row("gate", "%s", s->gate);
    put_row("prompt", "%d tokens, entropy %.3f bits, %d documents", e->prompt_tokens, e->entropy,
            e->documents);
    put_row("tau", "%.3f: a token passes at %.1f to 1 or better", (double)e->tau, pow(10, (double)e->tau));
    put_row("reply", "%d tokens, %d rejected; the budget is %d beyond %.3f a token", e->reply_tokens,
            e->rejects, e->budget, (double)e->allowance);
    if (e->first_reject >= 0) put_row("fork", "at token %d", e->first_reject);
    if (e->woke_at >= 0) put_row("wake", "at token %d, by %s", e->woke_at, wane_wake_name(e->woke_by));
    if (e->woke_at < 0) put_row("wake", "none: the vote sleeps");
    out_format("</dl>\n<h2>Prompt</h2>\n<pre>");
    put_text(s->prompt, s->prompt_size);
    out_format("</pre>\n<h2>Reply</h2>\n<pre>");
    for (size_t i = 0; i < s->count; i++) put_piece(s, &s->piece[i]);
    out_format("</pre>\n<p><span class=\"sure\">ten times surer than asked</span> <span "
               "class=\"pass\">passed</span> "
               "<span class=\"reject\">rejected</span> <span class=\"table\">the table knows "
               "it</span></p>\n</html>\n");
    out_flush();
}
