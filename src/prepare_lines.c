/*
 * prepare_lines.c - the steps that look at lines and sentences: separators of tables, signs between nouns, marks of sentences.
 *
 * Refuses to reword: what is taken away says nothing, what is put in can be told from the text. Where a form could mean something
 * else (a bar in a line that stands alone, 、 at the end of a list that goes on), it stays.
 */
#include "prepare.h"

#include "core/error.h"

#include <string.h>
#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/utext.h>

struct piece {
    const char *at, *end;
};

static size_t size_of(struct piece piece) {
    return (size_t)(piece.end - piece.at);
}

static bool is_blank(UChar32 c) {
    return c == ' ' || c == '\t' || c == 0x3000;
}

static struct piece trim(struct piece piece) {
    const char *last = NULL;
    for (const char *at = piece.at; at < piece.end;) {
        const char *from = at;
        UChar32 c = wane__prepare_char(&at, piece.end);
        if (is_blank(c) || c == '\r') continue;
        if (last == NULL) piece.at = from;
        last = at;
    }
    piece.end = last != NULL ? last : piece.at;
    return piece;
}

static struct piece line_at(const char *at, const char *end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    return (struct piece){at, stop != NULL ? stop : end};
}

/* ------------------------------------------------------------------ tables */

/* Bars between cells: the plain one, the wide one, and those that draw boxes. */
static bool is_bar(UChar32 c) {
    return c == '|' || c == 0xff5c || (c >= 0x2502 && c <= 0x2503) || (c >= 0x2506 && c <= 0x2507) ||
           (c >= 0x250a && c <= 0x250b) || (c >= 0x254e && c <= 0x254f) || c == 0x2551;
}

static bool is_dash(UChar32 c) {
    return c == '-' || c == '=' || (c >= 0x2500 && c <= 0x2501) || (c >= 0x2504 && c <= 0x2505) ||
           (c >= 0x2508 && c <= 0x2509) || (c >= 0x254c && c <= 0x254d) || c == 0x2550;
}

static bool is_cross(UChar32 c) {
    return c == '+' || is_bar(c) || (c >= 0x2500 && c <= 0x257f && !is_dash(c));
}

enum line_kind { TEXT, ROW, RULE };

/* A rule is drawn; a row has a bar, and something else. */
static enum line_kind kind_of(struct piece line) {
    int dashes = 0, crosses = 0, colons = 0, bars = 0, others = 0;
    bool escaped = false;
    for (const char *at = line.at; at < line.end;) {
        UChar32 c = wane__prepare_char(&at, line.end);
        dashes += is_dash(c);
        crosses += is_cross(c);
        colons += c == ':';
        bars += is_bar(c) && !escaped;
        others += !is_dash(c) && !is_cross(c) && c != ':' && !is_blank(c) && c != '\r';
        escaped = c == '\\' && !escaped;
    }
    if (others == 0 && dashes > 0 && crosses > 0 && dashes + crosses + colons >= 3) return RULE;
    return bars > 0 ? ROW : TEXT;
}

/* The next cell of a row without its outer bars; false at the end. A bar behind a backslash belongs to its cell. */
static bool next_cell(const char **at, const char *end, struct piece *cell) {
    if (*at > end) return false;
    const char *from = *at;
    bool escaped = false;
    for (const char *c = from; c < end;) {
        const char *sign = c;
        UChar32 value = wane__prepare_char(&c, end);
        if (is_bar(value) && !escaped) {
            *cell = trim((struct piece){from, sign});
            *at = c;
            return true;
        }
        escaped = value == '\\' && !escaped;
    }
    *cell = trim((struct piece){from, end});
    *at = end + 1;
    return true;
}

/* A row between its outer bars, where it has them. */
static struct piece inside(struct piece row) {
    row = trim(row);
    const char *at = row.at;
    if (row.at < row.end && is_bar(wane__prepare_char(&at, row.end))) row.at = at;
    const char *last;
    bool escaped = false;
    struct piece open = row;
    for (at = row.at; at < row.end;) {
        last = at;
        UChar32 c = wane__prepare_char(&at, row.end);
        if (at == row.end && is_bar(c) && !escaped) open.end = last;
        escaped = c == '\\' && !escaped;
    }
    return open;
}

static size_t put_indent(struct piece line, struct wane__buf *out) {
    const char *at = line.at;
    while (at < line.end && (*at == ' ' || *at == '\t')) at++;
    wane__buf_append(out, line.at, (size_t)(at - line.at));
    return (size_t)(at - line.at);
}

static int put_row(struct piece line, struct wane__buf *out) {
    struct piece row = inside(line), cell;
    int cells = 0;
    put_indent(line, out);
    wane__buf_text(out, "|");
    for (const char *at = row.at; next_cell(&at, row.end, &cell); cells++) {
        if (size_of(cell) > 0) wane__buf_text(out, " ");
        wane__buf_append(out, cell.at, size_of(cell));
        wane__buf_text(out, " |");
    }
    return cells;
}

static bool is_markdown_rule(struct piece line) {
    for (const char *at = line.at; at < line.end; at++)
        if (strchr("|-: \t\r", *at) == NULL || *at == '\0') return false;
    return true;
}

/* The one rule that stays, below the heading: three dashes a cell, and the colons that align it. */
static void put_rule(struct piece line, int cells, struct wane__buf *out) {
    struct piece row = inside(line), cell;
    int own = 0;
    bool says = is_markdown_rule(line);
    for (const char *at = row.at; next_cell(&at, row.end, &cell);) own++;
    put_indent(line, out);
    wane__buf_text(out, "|");
    const char *at = row.at;
    for (int i = 0; i < cells; i++) {
        bool left = false, right = false;
        if (says && own == cells && next_cell(&at, row.end, &cell) && size_of(cell) > 0) {
            left = *cell.at == ':';
            right = cell.end[-1] == ':';
        }
        wane__buf_format(out, " %s---%s |", left ? ":" : "", right ? ":" : "");
    }
}

/* One line of a table. `rows` counts those before it, `cells` are the heading's. */
static void put_line(struct wane__prepare *prepare, struct piece line, bool more_follow, int *rows,
                     int *cells, struct wane__buf *out, const char *end) {
    size_t before = out->size;
    bool is_rule = kind_of(line) == RULE, behind_heading = *rows == 1;
    bool keeps = is_rule && behind_heading && (more_follow || is_markdown_rule(line));
    if (is_rule && !keeps) {
        prepare->changes++;
        if (behind_heading) *rows = 2; /* only the line right below it can be its rule */
        return;
    }
    if (keeps) {
        put_rule(line, *cells, out);
        *rows = 2;
    } else {
        int found = put_row(line, out);
        if (*rows == 0) *cells = found;
        *rows += 1;
    }
    if (line.end > line.at && line.end[-1] == '\r') wane__buf_text(out, "\r");
    if (!out->failed &&
        (out->size - before != size_of(line) || memcmp(out->data + before, line.at, size_of(line)) != 0))
        prepare->changes++;
    if (line.end < end) wane__buf_text(out, "\n");
}

static const char *put_table(struct wane__prepare *prepare, const char *at, const char *stop, const char *end,
                             struct wane__buf *out) {
    int rows = 0, cells = 0;
    while (at < stop) {
        struct piece line = line_at(at, end);
        at = line.end + (line.end < end);
        bool more_follow = at < stop && kind_of(line_at(at, end)) == ROW;
        put_line(prepare, line, more_follow, &rows, &cells, out, end);
    }
    return at;
}

int wane__prepare_tables(struct wane__prepare *prepare, const char *text, size_t size, struct wane__buf *out,
                         wane_error *error) {
    (void)error;
    const char *end = text + size;
    for (const char *at = text; at < end;) {
        const char *stop = at;
        int rows = 0, rules = 0;
        while (stop < end) {
            struct piece line = line_at(stop, end);
            enum line_kind kind = kind_of(line);
            if (kind == TEXT) break;
            rows += kind == ROW;
            rules += kind == RULE;
            stop = line.end + (line.end < end);
        }
        if (rows > 0 && rules > 0) {
            at = put_table(prepare, at, stop, end, out);
            continue;
        }
        struct piece line = line_at(at, end);
        if (stop == at) stop = line.end + (line.end < end);
        wane__buf_append(out, at, (size_t)(stop - at));
        at = stop;
    }
    return WANE_OK;
}

/* ------------------------------------------------------------------ nouns */

enum { COMMA = 0x3001, HALF_COMMA = 0xff64 };

/* What ends a clause: a 、 before it parts nothing. */
static bool ends_clause(UChar32 c) {
    return c == 0xff0c || c == 0x3002 || c == 0xff1b || c == 0xff01 || c == 0xff1f || c == 0xff1a;
}

int wane__prepare_nouns(struct wane__prepare *prepare, const char *text, size_t size, struct wane__buf *out,
                        wane_error *error) {
    (void)error;
    static const char comma[] = "\xe3\x80\x81";
    const char *end = text + size, *from = text;
    bool line_begins = true;
    for (const char *at = text; at < end;) {
        const char *run = at, *stop = at, *first = NULL;
        UChar32 c = -1;
        while (stop < end) {
            const char *next = stop;
            c = wane__prepare_char(&next, end);
            if (c != COMMA && c != HALF_COMMA && !is_blank(c)) break;
            if (first == NULL && !is_blank(c)) first = stop;
            stop = next;
            c = -1;
        }
        if (first == NULL) {
            at = stop;
            if (at < end) line_begins = wane__prepare_char(&at, end) == '\n';
            continue;
        }
        if (line_begins) run = first; /* an indentation stays */
        bool drops = ends_clause(c);
        const char *with = drops ? "" : comma;
        if (run == NULL || (size_t)(stop - run) != strlen(with) || memcmp(run, with, strlen(with)) != 0) {
            wane__buf_append(out, from, (size_t)(run - from));
            wane__buf_text(out, with);
            from = stop;
            prepare->changes++;
        }
        at = stop;
        line_begins = false;
    }
    wane__buf_append(out, from, (size_t)(end - from));
    return WANE_OK;
}

/* ------------------------------------------------------------------ segments */

static const char opening[] = "[SEGMENT ";
enum { DIGITS_MOST = 7, OPENING = sizeof opening - 1 };

/* Bytes of the mark that a text ends with, or 0. */
static size_t mark_at_end(const struct wane__buf *out, size_t start) {
    if (out->failed || out->size - start < OPENING + 3) return 0;
    const char *begin = out->data + start, *end = out->data + out->size;
    if (end[-1] != ' ' || end[-2] != ']') return 0;
    const char *at = end - 2;
    while (at > begin && at[-1] >= '0' && at[-1] <= '9') at--;
    size_t digits = (size_t)(end - 2 - at);
    if (digits == 0 || digits > DIGITS_MOST || (size_t)(at - begin) < OPENING) return 0;
    at -= OPENING;
    return memcmp(at, opening, OPENING) == 0 ? (size_t)(end - at) : 0;
}

/* Marks leave, also one that only the leaving of another one made. */
int wane__prepare_unmark(struct wane__prepare *prepare, const char *text, size_t size, struct wane__buf *out,
                         wane_error *error) {
    (void)error;
    size_t start = out->size;
    for (const char *at = text, *end = text + size; at < end;) {
        const char *stop = memchr(at, ' ', (size_t)(end - at));
        stop = stop != NULL ? stop + 1 : end;
        wane__buf_append(out, at, (size_t)(stop - at));
        for (size_t mark; (mark = mark_at_end(out, start)) > 0; prepare->changes++) out->size -= mark;
        at = stop;
    }
    return WANE_OK;
}

/* Where a sentence's mark goes: before its first sign. NULL: it gets none, being blank, or without a letter, or a table's row. */
static const char *mark_place(struct piece sentence) {
    const char *place = NULL;
    for (const char *at = sentence.at; at < sentence.end;) {
        const char *from = at;
        UChar32 c = wane__prepare_char(&at, sentence.end);
        if (place == NULL && (u_isUWhiteSpace(c) || is_blank(c))) continue;
        if (place == NULL && c == '|') return NULL;
        if (place == NULL) place = from;
        if (u_isalnum(c)) return place;
    }
    return NULL;
}

void wane__prepare_close(struct wane__prepare *prepare) {
    if (prepare->breaks != NULL) ubrk_close(prepare->breaks);
    prepare->breaks = NULL;
}

/* Walk over the sentences; with `out`, mark them. Returns where the text goes on that was not written yet. */
static const char *walk(struct wane__prepare *prepare, const char *text, struct wane__buf *out) {
    const char *from = text;
    int32_t at = ubrk_first(prepare->breaks);
    for (int32_t next; at != UBRK_DONE && (next = ubrk_next(prepare->breaks)) != UBRK_DONE; at = next) {
        const char *place = mark_place((struct piece){text + at, text + next});
        if (place == NULL) continue;
        if (out == NULL) {
            prepare->sentences++;
        } else if (prepare->sentences > 1) {
            wane__buf_append(out, from, (size_t)(place - from));
            wane__buf_format(out, "%s%d] ", opening, ++prepare->marked);
            from = place;
        }
    }
    return from;
}

static int segment(struct wane__prepare *prepare, const char *text, size_t size, struct wane__buf *out,
                   wane_error *error) {
    UErrorCode status = U_ZERO_ERROR;
    const char *from = text;
    UText *view = utext_openUTF8(NULL, text, (int64_t)size, &status);
    /* "Mr." ends no sentence: known abbreviations are left out of account. */
    if (prepare->breaks == NULL)
        prepare->breaks = ubrk_open(UBRK_SENTENCE, "en@ss=standard", NULL, 0, &status);
    if (U_SUCCESS(status)) ubrk_setUText(prepare->breaks, view, &status);
    if (U_SUCCESS(status)) from = walk(prepare, text, out);
    if (out != NULL) wane__buf_append(out, from, size - (size_t)(from - text));
    if (view != NULL) utext_close(view);
    return U_SUCCESS(status) ? WANE_OK
                             : wane__fail(error, WANE_EINTERNAL, "ICU cannot find the text's sentences: %s.",
                                          u_errorName(status));
}

int wane__prepare_count(struct wane__prepare *prepare, const char *text, size_t size, struct wane__buf *out,
                        wane_error *error) {
    (void)out;
    return segment(prepare, text, size, NULL, error);
}

int wane__prepare_mark(struct wane__prepare *prepare, const char *text, size_t size, struct wane__buf *out,
                       wane_error *error) {
    return segment(prepare, text, size, out, error);
}
