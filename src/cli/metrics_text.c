/*
 * metrics_text.c - a reader of Prometheus' text form for the few numbers that a command asks for. Owns nothing, keeps nothing:
 * each question walks the text. Refuses to guess: a sample that cannot be read is no sample, and its sum is no number.
 */
#include "metrics_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One sample: pointers into the text. */
struct sample {
    const char *name, *labels, *value;
    size_t name_size, labels_size;
};

static size_t name_length(const char *text) {
    size_t n = 0;
    while ((text[n] >= 'a' && text[n] <= 'z') || (text[n] >= 'A' && text[n] <= 'Z') || text[n] == '_' ||
           text[n] == ':' || (n > 0 && text[n] >= '0' && text[n] <= '9'))
        n++;
    return n;
}

/* From behind "{" to the "}" that ends it; NULL: it does not end in this line. */
static const char *labels_end(const char *at) {
    for (bool quoted = false; *at != '\0' && *at != '\n'; at++) {
        if (quoted && *at == '\\' && at[1] != '\0' && at[1] != '\n')
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (*at == '}' && !quoted)
            return at;
    }
    return NULL;
}

/* Take a line apart; false: it is no sample. */
static bool read_sample(const char *line, struct sample *out) {
    *out = (struct sample){.name = line, .name_size = name_length(line)};
    const char *at = line + out->name_size;
    if (out->name_size == 0) return false;
    if (*at == '{') {
        const char *end = labels_end(at + 1);
        if (end == NULL) return false;
        out->labels = at + 1;
        out->labels_size = (size_t)(end - at) - 1;
        at = end + 1;
    }
    if (*at != ' ' && *at != '\t') return false;
    at += strspn(at, " \t");
    out->value = at;
    return *at != '\0' && *at != '\n';
}

static double value_of(const struct sample *sample) {
    char *end;
    double value = strtod(sample->value, &end);
    return end != sample->value && (*end == '\0' || *end == '\n' || *end == ' ' || *end == '\r')
               ? value
               : (double)NAN;
}

/* Is the pair `wanted` among the labels, between commas? */
static bool has_pair(const struct sample *sample, const char *wanted, size_t size) {
    const char *at = sample->labels, *end = at != NULL ? at + sample->labels_size : NULL;
    while (at < end) {
        const char *from = at;
        for (bool quoted = false; at < end && (quoted || *at != ','); at++) {
            if (quoted && *at == '\\' && at + 1 < end)
                at++;
            else if (*at == '"')
                quoted = !quoted;
        }
        if ((size_t)(at - from) == size && memcmp(from, wanted, size) == 0) return true;
        at++;
    }
    return false;
}

static bool fits(const struct sample *sample, const char *name, const char *labels) {
    if (sample->name_size != strlen(name) || memcmp(sample->name, name, sample->name_size) != 0) return false;
    while (labels != NULL && *labels != '\0') {
        size_t size = strcspn(labels, ",");
        if (!has_pair(sample, labels, size)) return false;
        labels += size + (labels[size] == ',');
    }
    return true;
}

static const char *next_line(const char *line) {
    const char *end = strchr(line, '\n');
    return end != NULL ? end + 1 : line + strlen(line);
}

double metrics_value(const char *text, const char *name, const char *labels) {
    double sum = 0;
    bool found = false;
    for (const char *line = text; *line != '\0'; line = next_line(line)) {
        struct sample sample;
        if (*line == '#' || !read_sample(line, &sample) || !fits(&sample, name, labels)) continue;
        sum += value_of(&sample);
        found = true;
    }
    return found ? sum : (double)NAN;
}

/* `label`'s value, behind ="; NULL: there is no such label. */
static const char *find_label(const struct sample *sample, const char *label) {
    size_t length = strlen(label);
    const char *at = sample->labels, *end = at != NULL ? at + sample->labels_size : NULL;
    while (at != NULL && at < end) {
        bool here = (size_t)(end - at) > length + 1 && memcmp(at, label, length) == 0 && at[length] == '=' &&
                    at[length + 1] == '"';
        if (here) return at + length + 2;
        const char *quote = memchr(at, '"', (size_t)(end - at));
        if (quote == NULL) return NULL;
        for (at = quote + 1; at < end && *at != '"'; at++) at += *at == '\\' && at + 1 < end;
        at += at < end;
        at += at < end && *at == ',';
    }
    return NULL;
}

/* A sample's label without escapes; its length, or -1 where there is no such label. */
static int copy_label(const struct sample *sample, const char *label, char *out, size_t size) {
    const char *at = find_label(sample, label), *end = sample->labels + sample->labels_size;
    size_t used = 0;
    if (at == NULL || size == 0) return -1;
    for (; at < end && *at != '"' && used + 1 < size; at++) {
        if (*at == '\\' && at + 1 < end) at++;
        out[used++] = *at;
    }
    out[used] = '\0';
    return (int)used;
}

bool metrics_label(const char *text, const char *name, const char *label, char *out, size_t size) {
    for (const char *line = text; *line != '\0'; line = next_line(line)) {
        struct sample sample;
        if (*line == '#' || !read_sample(line, &sample) || !fits(&sample, name, NULL)) continue;
        if (copy_label(&sample, label, out, size) >= 0) return true;
    }
    return false;
}

bool metrics_which(const char *text, const char *name, const char *label, char *out, size_t size) {
    size_t used = 0;
    for (const char *line = text; *line != '\0'; line = next_line(line)) {
        struct sample sample;
        if (*line == '#' || !read_sample(line, &sample) || !fits(&sample, name, NULL) ||
            !(value_of(&sample) > 0))
            continue;
        size_t gap = used > 0 ? 2 : 0;
        if (used + gap + 2 > size) break;
        int length = copy_label(&sample, label, out + used + gap, size - used - gap);
        if (length < 0) continue;
        if (gap > 0) {
            out[used] = ',';
            out[used + 1] = ' ';
        }
        used += gap + (size_t)length;
    }
    return used > 0;
}

bool metrics_good(const char *text) {
    for (const char *line = text; *line != '\0'; line = next_line(line)) {
        struct sample sample;
        if (*line == '#' || *line == '\n' || *line == '\r') continue;
        if (!read_sample(line, &sample) || isnan(value_of(&sample))) return false;
    }
    return true;
}
