/* os.h - what operating systems do differently for the program: Linux and macOS. The library's part is elsewhere. */
#ifndef WANE_CLI_OS_H
#define WANE_CLI_OS_H

#include <stdbool.h>

/* The folder in which this program lies, links followed; free it. NULL: the system does not tell. */
char *os_program_folder(void);

/* A pipe whose ends programs started from here do not inherit; false with errno set. */
bool os_pipe(int ends[2]);

#endif
