#define _GNU_SOURCE
#include "terminal.h"
#include <wchar.h>

int dfs_columns(uint32_t character) {
  int columns = wcwidth((wchar_t)character);
  return columns < 0 ? 0 : columns;
}
