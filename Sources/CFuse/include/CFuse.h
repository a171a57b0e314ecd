// The C that sees libfuse and the kernel's FUSE structs, and the request loop.
#pragma once
#include "guardian.h"
#include "init.h"
#include "passthrough.h"
#include "passthrough_helper.h"
#include "prune.h"
#include "request_loop.h"
#include "session.h"
#include "statx.h"
