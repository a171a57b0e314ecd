// The C code of displayfs: all that Swift cannot import by itself.
#pragma once
#include "guardian.h"
#include "identity.h"
#include "syscalls.h"
#include "session.h"
#include "receiving.h"
#include "init.h"
#include "passthrough.h"
#include "passthrough_helper.h"
#include "beside.h"
#include "client_call.h"
#include "yielding.h"
