/*
 * record_kind.c - what kind of request a conversation is, guessed from its text. Refuses to be clever: the rules are few,
 * stand in docs/trace.md, and a request that says its kind is believed.
 */
#include "table/trace.h"
#include "wane.h"

#include <string.h>
#include <strings.h>

/* A last user message with so many bytes is a text to be worked on. */
#define LONG_PROMPT 6000u

const char *wane_kind_name(int kind) {
    return kind >= 0 && kind < WANE__KINDS ? wane__kind_name((enum wane__kind)kind) : "?";
}

int wane_kind_from(const char *name) {
    enum wane__kind kind;
    return wane__kind_from(name, strlen(name), &kind) ? (int)kind : -1;
}

static bool holds(const char *text, size_t size, const char *word) {
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= size; i++)
        if (strncasecmp(text + i, word, length) == 0) return true;
    return false;
}

static bool asks_for_summary(const char *text, size_t size) {
    static const char *const words[] = {"summar",       "tl;dr", "tldr", "key points", "in a nutshell",
                                        "zusammenfass", "résum", "要約", "总结",       "概括"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (holds(text, size, words[i])) return true;
    return false;
}

/* Lines as code has them: a brace or a semicolon at their end, or a keyword at their beginning. */
static bool is_code_line(const char *line, size_t size) {
    static const char *const begins[] = {"def ",   "class ",  "import ", "from ",   "#include", "function ",
                                         "const ", "SELECT ", "INSERT ", "UPDATE ", "CREATE ",  "fn ",
                                         "func ",  "public ", "static ", "return ", "struct ",  "package "};
    while (size > 0 && (line[size - 1] == ' ' || line[size - 1] == '\t' || line[size - 1] == '\r')) size--;
    while (size > 0 && (line[0] == ' ' || line[0] == '\t')) {
        line++;
        size--;
    }
    if (size == 0) return false;
    if (strchr(";{}", line[size - 1]) != NULL) return true;
    bool continues = strchr(":(,)", line[size - 1]) != NULL; /* "from them on" begins a sentence, too */
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        size_t length = strlen(begins[i]);
        if (size > length && strncmp(line, begins[i], length) == 0 &&
            (continues || begins[i][0] == '#' || memchr(line, '(', size) != NULL))
            return true;
    }
    return false;
}

/* Two such lines, and a fifth of all. */
static bool reads_like_code(const char *text, size_t size) {
    size_t lines = 0, code = 0;
    for (size_t at = 0; at < size;) {
        const char *newline = memchr(text + at, '\n', size - at);
        size_t length = newline != NULL ? (size_t)(newline - text) - at : size - at;
        if (length > 0) lines++;
        code += is_code_line(text + at, length);
        at += length + 1;
    }
    return code >= 2 && 5 * code >= lines;
}

int wane_kind_guess(const wane_message *messages, size_t count) {
    const wane_message *last = NULL;
    size_t users = 0;
    bool fence = false;
    for (size_t i = 0; i < count; i++) {
        fence = fence || holds(messages[i].content, messages[i].content_size, "```");
        if (strcmp(messages[i].role, "user") != 0) continue;
        users++;
        last = &messages[i];
    }
    if (fence || (last != NULL && reads_like_code(last->content, last->content_size))) return WANE_KIND_CODE;
    if (last != NULL &&
        (last->content_size >= LONG_PROMPT || asks_for_summary(last->content, last->content_size)))
        return WANE_KIND_SUMMARY;
    return users > 1 ? WANE_KIND_MULTI : WANE_KIND_SINGLE;
}
