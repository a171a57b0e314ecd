// System calls that Swift cannot import, and what a thread is to the system calls that it makes: whose credentials it has, and whose
// request it serves. No libfuse: programs that link the library for names need none.
#pragma once
#include "client_call.h"
#include "identity.h"
#include "proc.h"
#include "request.h"
#include "syscalls.h"
#include "terminal.h"
