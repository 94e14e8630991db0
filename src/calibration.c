/* calibration.c - placeholder */
#include "calibrate.h"
const struct wane__calibration_part wane__calibration[] = {{"Hi", "Hello there, how are you today? I hope all is well with you and yours."}};
const int wane__calibration_count = 1;
