// The C that sees libfuse and the kernel's FUSE structs, and the request loop.
#pragma once
#include "beside.h"
#include "guardian.h"
#include "init.h"
#include "passthrough.h"
#include "passthrough_helper.h"
#include "receiving.h"
#include "session.h"
#include "yielding.h"
