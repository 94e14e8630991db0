/*
 * powers_template.h - the moments of a chunk of cosines, in plain C that a compiler makes vectors of; included once for each set of
 * instructions, with TARGET. Twice over the chunk, which is in the nearest cache: first the mean, then deviations from it.
 *
 * Eight sums side by side, added in one order: the same bits whatever the registers are.
 */

TARGET static float add_lanes(const float *lane) {
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

TARGET static void powers(const int32_t *dots, int count, struct wane__powers *out) {
    static const float unit = 1.0f / ((float)WANE__KEYS_ONE * (float)WANE__KEYS_ONE);
    float x[WANE__KEYS_CHUNK], sum[8] = {0}, s2[8] = {0}, s3[8] = {0}, s4[8] = {0};
    int whole = (count + 7) / 8 * 8;
    for (int i = 0; i < count; i++) x[i] = (float)dots[i] * unit;
    for (int i = count; i < whole; i++) x[i] = 0;
    for (int i = 0; i < whole; i += 8)
        for (int l = 0; l < 8; l++) sum[l] += x[i + l];
    float mean = add_lanes(sum) / (float)count;
    for (int i = count; i < whole; i++) x[i] = mean; /* deviations of 0 */
    float rest[8] = {0};
    for (int i = 0; i < whole; i += 8)
        for (int l = 0; l < 8; l++) {
            float d = x[i + l] - mean, d2 = d * d;
            rest[l] += d;
            s2[l] += d2;
            s3[l] += d2 * d;
            s4[l] += d2 * d2;
        }
    *out = (struct wane__powers){.count = count,
                                 .mean = (double)mean,
                                 .m2 = (double)add_lanes(s2),
                                 .m3 = (double)add_lanes(s3),
                                 .m4 = (double)add_lanes(s4)};
    /* The mean was rounded: what is left of the deviations moves it to where it belongs. */
    double off = (double)add_lanes(rest) / count, n = count;
    out->mean += off;
    out->m4 += off * (-4 * out->m3 + off * (6 * out->m2 - 3 * n * off * off));
    out->m3 += off * (-3 * out->m2 + 2 * n * off * off);
    out->m2 -= n * off * off;
}
