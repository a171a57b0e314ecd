#pragma once
#include <stdint.h>

// How many columns of a terminal a character takes, at least 0. (wcwidth(3), which <wchar.h> declares for X/Open programs only)
int dfs_columns(uint32_t character);
