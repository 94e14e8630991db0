/* probe_rig.h - what queries see of keys, worked out the slow way in double, from floats as they came. */
#ifndef WANE_TESTS_PROBE_RIG_H
#define WANE_TESTS_PROBE_RIG_H

#include <math.h>
#include <stdlib.h>

/* Kurtosis and standard deviation of cos(query, key) over `count` keys, means over heads; keys are key_heads × size apart. */
static inline void naive_look(const float *q, int heads, const float *keys, int key_heads, int size,
                              int count, double *kurtosis, double *spread) {
    double *cosine = malloc((size_t)count * sizeof *cosine);
    *kurtosis = *spread = 0;
    for (int h = 0; h < heads; h++) {
        const float *query = q + h * size;
        double mean = 0, m2 = 0, m4 = 0, qq = 0;
        for (int i = 0; i < size; i++) qq += (double)query[i] * (double)query[i];
        for (int j = 0; j < count; j++) {
            const float *key =
                keys + (size_t)j * (size_t)(key_heads * size) + (h / (heads / key_heads)) * size;
            double qk = 0, kk = 0;
            for (int i = 0; i < size; i++) {
                qk += (double)query[i] * (double)key[i];
                kk += (double)key[i] * (double)key[i];
            }
            cosine[j] = qk / sqrt(qq * kk);
            mean += cosine[j] / count;
        }
        for (int j = 0; j < count; j++) {
            double d = cosine[j] - mean;
            m2 += d * d / count;
            m4 += d * d * d * d / count;
        }
        *kurtosis += m4 / (m2 * m2) / heads;
        *spread += sqrt(m2) / heads;
    }
    free(cosine);
}

/* Close enough for numbers of 16 bits. */
static inline int near_enough(double got, double expected) {
    return fabs(got - expected) <= 2e-3 * fabs(expected) + 1e-5;
}

#endif
