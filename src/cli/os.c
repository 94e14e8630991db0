/* os.c - the program's differences between Linux and macOS; see os.h. */
#include "os.h"

#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __APPLE__
#include <mach-o/dyld.h>

static bool program_path(char path[PATH_MAX]) {
    char given[PATH_MAX]; /* as it was started: relative, or a link */
    uint32_t size = sizeof given;
    return _NSGetExecutablePath(given, &size) == 0 && realpath(given, path) != NULL;
}

#else

static bool program_path(char path[PATH_MAX]) {
    ssize_t size = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (size <= 0) return false;
    path[size] = '\0';
    return true;
}

#endif

char *os_program_folder(void) {
    char path[PATH_MAX];
    char *slash = program_path(path) ? strrchr(path, '/') : NULL;
    return slash != NULL ? text_copy_part(path, (size_t)(slash - path)) : NULL;
}

#ifdef __linux__

bool os_pipe(int ends[2]) {
    return pipe2(ends, O_CLOEXEC) == 0;
}

#else

bool os_pipe(int ends[2]) {
    int made[2];
    if (pipe(made) != 0) return false;
    if (fcntl(made[0], F_SETFD, FD_CLOEXEC) == 0 && fcntl(made[1], F_SETFD, FD_CLOEXEC) == 0) {
        memcpy(ends, made, sizeof made);
        return true;
    }
    int kept = errno;
    close(made[0]);
    close(made[1]);
    errno = kept;
    return false;
}

#endif
