/*
 * powers_template.h - the moments of a chunk of cosines, in plain C that a compiler makes vectors of; included once for each set of
 * instructions, with TARGET. Twice over the chunk, which is in the nearest cache: first the mean, then deviations from it.
 *
 * Eight sums side by side, added in one order: the same bits whatever the registers are.
 */

/* Eight lanes; compilers cut them into what registers hold. Never passed by value: that would depend on the processor. */
typedef float lanes __attribute__((vector_size(32)));

#define LANES_AT(to, from) memcpy(&(to), (from), sizeof(lanes))

TARGET static inline float add_lanes(const lanes *l) {
    const lanes x = *l;
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

TARGET static void powers(const int32_t *dots, int count, struct wane__powers *out) {
    static const float unit = 1.0f / ((float)WANE__KEYS_ONE * (float)WANE__KEYS_ONE);
    float x[WANE__KEYS_CHUNK];
    int whole = (count + 7) / 8 * 8;
    lanes at, sum = {0}, rest = {0}, s2 = {0}, s3 = {0}, s4 = {0};
    for (int i = 0; i < count; i++) x[i] = (float)dots[i] * unit;
    for (int i = count; i < whole; i++) x[i] = 0;
    for (int i = 0; i < whole; i += 8) {
        LANES_AT(at, x + i);
        sum += at;
    }
    float mean = add_lanes(&sum) / (float)count;
    for (int i = count; i < whole; i++) x[i] = mean; /* deviations of 0 */
    for (int i = 0; i < whole; i += 8) {
        LANES_AT(at, x + i);
        lanes d = at - mean, d2 = d * d;
        rest += d;
        s2 += d2;
        s3 += d2 * d;
        s4 += d2 * d2;
    }
    *out = (struct wane__powers){.count = count,
                                 .mean = (double)mean,
                                 .m2 = (double)add_lanes(&s2),
                                 .m3 = (double)add_lanes(&s3),
                                 .m4 = (double)add_lanes(&s4)};
    /* The mean was rounded: what is left of the deviations moves it to where it belongs. */
    double off = (double)add_lanes(&rest) / count, n = count;
    out->mean += off;
    out->m4 += off * (-4 * out->m3 + off * (6 * out->m2 - 3 * n * off * off));
    out->m3 += off * (-3 * out->m2 + 2 * n * off * off);
    out->m2 -= n * off * off;
}

#undef LANES_AT
