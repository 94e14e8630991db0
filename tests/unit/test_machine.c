/*
 * test_machine.c - facts of machines that nobody has, from a made-up /proc and /sys: what is read, and that nothing there can be
 * anything but unknown. And two tokenizers: where they part.
 */
#include "test_scheduler_rig.h"

#include "model.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/wane-machine-XXXXXX";

static void put(const char *path, const char *text) {
    char whole[400];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = strchr(whole + sizeof root, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_nothing_known(void **state) {
    (void)state;
    wane_machine m;
    wane_machine_look(root, 1, &m);
    assert_string_equal(m.processor, "");
    assert_string_equal(m.features, "");
    assert_string_equal(m.kernels, "");
    assert_true(isnan(m.quota) && isnan(m.load[0]) && isnan(m.busy) && isnan(m.steal) && isnan(m.mhz) &&
                isnan(m.pressure));
    assert_true(m.group_memory == WANE_UNKNOWN && m.group_used == WANE_UNKNOWN);
    assert_true(m.shared == WANE_UNKNOWN);
    assert_true(m.cpus >= 1 && m.allowed >= 1 && m.cores >= 1);
    assert_true(m.monotonic && m.date_ms > 0);
}

static void test_facts(void **state) {
    (void)state;
    wane_machine m;
    put("/proc/cpuinfo",
        "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\ncpu MHz\t\t: 2100.5\n"
        "flags\t\t: fpu avx avx2 fma avx512fx xavx512bw f16c\n\nprocessor : 1\nmodel name : Other\n");
    put("/proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    250 kB\n");
    put("/proc/loadavg", "1.50 0.75 0.25 2/300 4711\n");
    put("/proc/pressure/cpu", "some avg10=12.50 avg60=1.00 avg300=0.00 total=1\n");
    put("/proc/stat", "cpu  10 0 10 80 0 0 0 0 0 0\n");
    put("/proc/self/cgroup", "0::/box/inner\n");
    put("/proc/self/maps", "7f00-7f01 r-xp 0 0 0 /opt/lib/libggml-base.so\n7f02-7f03 r-xp 0 0 0 /opt/lib/"
                           "libggml-cpu-haswell.so\n");
    put("/sys/fs/cgroup/box/inner/memory.max", "536870912\n");
    put("/sys/fs/cgroup/memory.current", "1024\n");
    put("/sys/fs/cgroup/box/inner/cpu.max", "150000 100000\n");
    put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    put("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3000000\n");
    put("/dev/shm/x", "");
    wane_machine_look(root, 1, &m);
    assert_string_equal(m.processor, "Some CPU @ 3 GHz");
    assert_string_equal(m.features, "avx avx2 fma f16c"); /* whole words alone */
    assert_string_equal(m.kernels, "libggml-cpu-haswell.so");
    assert_string_equal(m.governor, "powersave");
    assert_true(m.mhz > 2100 && m.mhz < 2101 && fabs(m.mhz_most - 3000) < 1e-9);
    assert_int_equal(m.group_memory, 536870912);
    assert_int_equal(m.group_used, 1024); /* from the root: the group itself says nothing */
    assert_true(fabs(m.quota - 1.5) < 1e-9 && fabs(m.pressure - 0.125) < 1e-9);
    assert_true(fabs(m.load[0] - 1.5) < 1e-9 && fabs(m.load[2] - 0.25) < 1e-9);
    assert_true(m.shared != WANE_UNKNOWN);
#ifdef __linux__
    assert_int_equal(m.memory, 1000 * 1024);
#endif
    assert_int_equal(m.memory_free, 250 * 1024);
    assert_true(!isnan(m.busy)); /* two looks at a file that stays as it is: nobody was busy */
    assert_true(m.busy <= 0 && m.steal <= 0);
}

/* A limit that is none, in either version's words; and files that are not what they should be. */
static void test_odd_files(void **state) {
    (void)state;
    wane_machine m;
    put("/sys/fs/cgroup/box/inner/memory.max", "max\n");
    put("/sys/fs/cgroup/box/inner/cpu.max", "max 100000\n");
    put("/proc/meminfo", "MemTotal\nMemAvailable: lots\n");
    put("/proc/loadavg", "\n");
    put("/proc/stat", "cpu one two\n");
    put("/proc/cpuinfo", "model name\n: nothing\nflags\n");
    put("/proc/self/cgroup", "garbage");
    wane_machine_look(root, 1, &m);
    assert_true(isnan(m.quota) && isnan(m.load[0]) && isnan(m.busy));
    assert_true(m.memory_free == WANE_UNKNOWN);
    assert_string_equal(m.processor, "");
    put("/proc/self/cgroup", "0::/box/inner\n");
    wane_machine_look(root, 0, &m);
    assert_true(m.group_memory == WANE_UNLIMITED);
    put("/sys/fs/cgroup/box/inner/memory.max", "9223372036854771712\n");
    wane_machine_look(root, 0, &m);
    assert_true(m.group_memory == WANE_UNLIMITED);
    put("/sys/fs/cgroup/box/inner/memory.max", "12 monkeys\n");
    wane_machine_look(root, 0, &m);
    assert_true(m.group_memory == WANE_UNKNOWN);
}

static void test_places(void **state) {
    (void)state;
    char path[400];
    wane_place place;
    wane_error error = {0};
    assert_int_equal(wane_place_look(root, &place, &error), WANE_OK);
    assert_true(place.exists && place.writable && !place.read_only && place.bytes > 0);
    assert_string_equal(place.folder, root);
    snprintf(path, sizeof path, "%s/not/there/yet.db", root);
    assert_int_equal(wane_place_look(path, &place, &error), WANE_OK);
    assert_true(!place.exists && place.writable);
    assert_string_equal(place.folder, root);
    snprintf(path, sizeof path, "%s/proc/stat", root); /* a file: its folder is looked at */
    assert_int_equal(wane_place_look(path, &place, &error), WANE_OK);
    assert_true(place.exists && strstr(place.folder, "/proc") != NULL);
    assert_int_equal(wane_place_look("relative.db", &place, &error), WANE_OK);
    assert_string_equal(place.folder, ".");
    assert_int_equal(wane_place_look("", &place, &error), WANE_EINVAL);
}

/* ---- tokenizers ---------------------------------------------------------------------------------------------------------- */

static wane_model *model_with(const char *const *pieces, size_t count) {
    struct wane__script script = {.pieces = pieces, .piece_count = count};
    struct wane__engine *engine;
    wane_model *model;
    assert_int_equal(wane__script_load(&script, NULL, &engine, NULL), WANE_OK);
    assert_int_equal(wane__model_wrap(engine, NULL, NULL, &model, NULL), WANE_OK);
    return model;
}

static void test_tokenizers(void **state) {
    (void)state;
    const char *one[] = {"the", "cat", "sat"}, *two[] = {"the", "dog", "sat", "down"};
    wane_model *a = model_with(one, 3), *same = model_with(one, 3), *b = model_with(two, 4);
    wane_tokenizer_parting p;
    char x[33], y[33], z[33];
    wane_error error = {0};
    assert_int_equal(wane_model_tokenizer(a, x, &error), WANE_OK);
    assert_int_equal(wane_model_tokenizer(same, y, &error), WANE_OK);
    assert_int_equal(wane_model_tokenizer(b, z, &error), WANE_OK);
    assert_string_equal(x, y);
    assert_string_not_equal(x, z);
    assert_int_equal(wane_tokenizers_compare(a, same, &p, &error), WANE_OK);
    assert_int_equal(p.tokens, 0);
    assert_int_equal(p.characters, 0);
    assert_true(p.tried > 60000);
    assert_int_equal(wane_tokenizers_compare(a, b, &p, &error), WANE_OK);
    assert_int_equal(p.tokens, 2);
    assert_int_equal(p.token[0], 260);
    assert_int_equal(p.token[1], 262);
    assert_int_equal(p.characters, 0); /* both give bytes, and bytes are the same */
    assert_int_equal(wane_tokenizer_check(a, &p, &error), WANE_OK);
    assert_int_equal(p.characters, 0);
    wane_model_free(a);
    wane_model_free(same);
    wane_model_free(b);
}

static int make_root(void **state) {
    (void)state;
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int drop_root(void **state) {
    (void)state;
    char command[80];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_known), cmocka_unit_test(test_facts),
        cmocka_unit_test(test_odd_files),     cmocka_unit_test(test_places),
        cmocka_unit_test(test_tokenizers),
    };
    return cmocka_run_group_tests(tests, make_root, drop_root);
}
