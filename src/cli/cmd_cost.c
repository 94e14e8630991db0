/*
 * cmd_cost.c - `wane cost`: where rates come from, and the arithmetic line by line. Refuses to invent prices: what is not given
 * costs nothing, and at least one must be given.
 */
#include "cli.h"
#include "cost.h"
#include "http_get.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERVER_WAIT_MS = 5000 };

struct cost {
    struct cost_rates rates;
    struct cost_prices prices;
    struct cost_sum sum[COST_RATES_MOST];
    const char *currency;
};

/* ---- reading --------------------------------------------------------------------------------------------------------------- */

/* "wane=result.json": the mode's name, or NULL; *path: what is behind it. */
static char *name_of(const char *operand, const char **path) {
    size_t length = strcspn(operand, "=/.");
    *path = operand;
    if (length == 0 || operand[length] != '=') return NULL;
    *path = operand + length + 1;
    return text_copy_part(operand, length);
}

static int read_one(struct cost *cost, const struct settings *settings, const char *operand) {
    const char *path, *fault;
    size_t size;
    char *name = name_of(operand, &path), *text = read_all_file(path, &size);
    int streams = 0, code = EXIT_FINE;
    if (settings->value[SET_STREAMS].source == FROM_OPTION)
        streams = atoi(setting_text(settings, SET_STREAMS));
    if (text == NULL) {
        free(name);
        return EXIT_FAILED;
    }
    json_error_t where;
    json_t *bench = text[strspn(text, " \t\r\n")] == '{' ? json_loadb(text, size, 0, &where) : NULL;
    if (bench != NULL)
        fault = cost_from_bench(&cost->rates, bench, name, streams);
    else
        fault = cost_from_metrics(&cost->rates, text, name);
    if (fault != NULL) code = cli_fail(EXIT_FAILED, "%s gives no rate: %s", path, fault);
    json_decref(bench);
    free(text);
    free(name);
    return code;
}

static int read_server(struct cost *cost, const char *url) {
    struct http_page page;
    int code = EXIT_FINE;
    if (!http_get(url, "/metrics", getenv("WANE_KEY"), SERVER_WAIT_MS, &page))
        return cli_fail(EXIT_FAILED, "%s: %s", url, page.why);
    const char *fault = page.status == 200
                            ? cost_from_metrics(&cost->rates, page.body, NULL)
                            : "it does not show its metrics; WANE_KEY holds a key where it asks for one";
    if (fault != NULL) code = cli_fail(EXIT_FAILED, "%s gives no rate: %s", url, fault);
    free(page.body);
    return code;
}

static int read_all(struct cost *cost, const struct settings *settings) {
    const char *url = setting_text(settings, SET_URL);
    int code = EXIT_FINE;
    for (size_t i = 0; i < settings->operand_count && code == EXIT_FINE; i++)
        code = read_one(cost, settings, settings->operands[i]);
    if (code == EXIT_FINE && url != NULL) code = read_server(cost, url);
    double given = settings->value[SET_UTILISATION].real;
    for (int i = 0; i < cost->rates.count && given > 0; i++) cost->rates.list[i].utilisation = given;
    for (int i = 0; i < cost->rates.count; i++) cost_of(&cost->rates.list[i], &cost->prices, &cost->sum[i]);
    return code;
}

/* ---- printing -------------------------------------------------------------------------------------------------------------- */

static void print_mode(const struct cost *cost, int i) {
    const struct cost_rate *r = &cost->rates.list[i];
    const struct cost_sum *s = &cost->sum[i];
    const struct cost_prices *p = &cost->prices;
    char share[40] = "";
    if (r->utilisation < 1) snprintf(share, sizeof share, " / %.4f busy", r->utilisation);
    out_format("%s: %.3f tokens/s (%s)\n", r->mode, r->tokens_per_second, r->from);
    out_format("  time     %d tokens / %.3f tokens/s%s = %.2f s\n", COST_TOKENS, r->tokens_per_second, share,
               s->seconds);
    if (p->machine_hour > 0)
        out_format("  machine  %.2f s / 3600 s x %g %s = %.6f %s\n", s->seconds, p->machine_hour,
                   cost->currency, s->machine, cost->currency);
    if (p->kilowatt_hour > 0)
        out_format("  power    %g W x %.2f s / 3600000 = %.6f kWh x %g %s = %.6f %s\n", p->watts, s->seconds,
                   s->kilowatt_hours, p->kilowatt_hour, cost->currency, s->power, cost->currency);
    if (p->gigabyte > 0)
        out_format("  network  %d tokens x %g bytes / 1e9 = %.6f GB x %g %s = %.6f %s\n", COST_TOKENS,
                   p->bytes_per_token, s->gigabytes, p->gigabyte, cost->currency, s->network, cost->currency);
    out_format("  together %.6f %s for %d tokens", s->all, cost->currency, COST_TOKENS);
    if (i > 0 && cost->sum[0].all > 0)
        out_format("; %.3f of %s", s->all / cost->sum[0].all, cost->rates.list[0].mode);
    out_format("\n");
}

static void print_json(const struct cost *cost) {
    const struct cost_prices *p = &cost->prices;
    json_t *modes = json_array();
    for (int i = 0; i < cost->rates.count; i++) {
        const struct cost_rate *r = &cost->rates.list[i];
        const struct cost_sum *s = &cost->sum[i];
        json_t *one = json_pack("{s:o, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "mode",
                                json_text(r->mode, strlen(r->mode)), "from", r->from, "tokens_per_second",
                                r->tokens_per_second, "utilisation", r->utilisation, "seconds", s->seconds,
                                "machine", s->machine, "kilowatt_hours", s->kilowatt_hours, "power", s->power,
                                "gigabytes", s->gigabytes, "network", s->network, "together", s->all);
        if (i > 0 && cost->sum[0].all > 0)
            json_object_set_new(one, "of_first", json_real(s->all / cost->sum[0].all));
        json_array_append_new(modes, one);
    }
    out_json(json_pack("{s:i, s:s, s:o, s:o}", "tokens", COST_TOKENS, "currency", cost->currency, "prices",
                       json_pack("{s:f, s:f, s:f, s:f, s:f}", "machine_hour", p->machine_hour, "watts",
                                 p->watts, "kilowatt_hour", p->kilowatt_hour, "gigabyte", p->gigabyte,
                                 "bytes_per_token", p->bytes_per_token),
                       "modes", modes),
             false);
}

static void print_csv(const struct cost *cost) {
    out_format("mode,tokens,tokens_per_second,utilisation,seconds,machine,kilowatt_hours,power,gigabytes,"
               "network,together,"
               "currency\n");
    for (int i = 0; i < cost->rates.count; i++) {
        const struct cost_rate *r = &cost->rates.list[i];
        const struct cost_sum *s = &cost->sum[i];
        out_format("%s,%d,%.6f,%.6f,%.6f,%.9f,%.9f,%.9f,%.9f,%.9f,%.9f,%s\n", r->mode, COST_TOKENS,
                   r->tokens_per_second, r->utilisation, s->seconds, s->machine, s->kilowatt_hours, s->power,
                   s->gigabytes, s->network, s->all, cost->currency);
    }
}

int command_cost(struct settings *settings) {
    bool json = setting_on(settings, SET_JSON), csv = setting_on(settings, SET_CSV);
    struct cost cost = {.currency = setting_text(settings, SET_CURRENCY),
                        .prices = {.machine_hour = settings->value[SET_MACHINE_PRICE].real,
                                   .watts = settings->value[SET_WATTS].real,
                                   .kilowatt_hour = settings->value[SET_POWER_PRICE].real,
                                   .gigabyte = settings->value[SET_NETWORK_PRICE].real,
                                   .bytes_per_token = settings->value[SET_TOKEN_BYTES].real}};
    const struct cost_prices *p = &cost.prices;
    if (json && csv) return cli_usage("cost", "--json and --csv are two forms of output; choose one");
    if (settings->operand_count == 0 && setting_text(settings, SET_URL) == NULL)
        return cli_usage(
            "cost",
            "wane cost needs results (wane bench layer --json, wane bench protocol), saved metrics, or "
            "--url");
    if (!(p->machine_hour > 0 || p->kilowatt_hour > 0 || p->gigabyte > 0))
        return cli_usage(
            "cost",
            "wane cost needs a price: --machine-price, --power-price with --watts, or --network-price");
    if ((p->kilowatt_hour > 0) != (p->watts > 0))
        return cli_usage(
            "cost",
            "--watts and --power-price belong together: what the machine draws, and what a kWh costs");
    int code = read_all(&cost, settings);
    if (code != EXIT_FINE) return code;
    if (json)
        print_json(&cost);
    else if (csv)
        print_csv(&cost);
    else
        for (int i = 0; i < cost.rates.count; i++) print_mode(&cost, i);
    return EXIT_FINE;
}
