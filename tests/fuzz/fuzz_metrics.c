/*
 * fuzz_metrics.c - any bytes as a server's answer, and as its metrics: taken apart or refused in words; a sum that is asked for twice is
 * the same, and a text that is called good has a number for each of its names.
 */
#include "http_get.h"
#include "metrics_text.h"

#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

double now_ms(void) {
    return 0;
}

static void check_metrics(const char *text) {
    static const char *const names[] = {"a", "a_total", "wane_build_info", "x:y"};
    bool good = metrics_good(text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char label[16];
        double all = metrics_value(text, names[i], NULL), again = metrics_value(text, names[i], "");
        if (isnan(all) != isnan(again) || (!isnan(all) && (all < again || all > again))) abort();
        metrics_value(text, names[i], "x=\"1\",y=\"2\"");
        if (metrics_which(text, names[i], "x", label, sizeof label) && strlen(label) >= sizeof label) abort();
        if (metrics_label(text, names[i], "x", label, sizeof label) && strlen(label) >= sizeof label) abort();
    }
    if (good && strncmp(text, "a 1\n", 4) == 0 && isnan(metrics_value(text, "a", NULL))) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = calloc(size + 1, 1);
    struct http_page page = {0};
    if (text == NULL) abort();
    if (size > 0) memcpy(text, data, size);
    check_metrics(text);
    if (http_read(text, size, &page)) {
        if (page.body < text || page.body + page.size > text + size) abort();
    } else if (page.why[0] == '\0') {
        abort();
    }
    free(text);
    return 0;
}
