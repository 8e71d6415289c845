/* A module for the tests of faults: an assertion fails. */
#include "../../agent_middleware.h"

AM_MIDDLEWARE("faults", "1.0.0", "Faults.")

AM_HOOK(before_agent) {
	(void)out;
	am_assert(in->run.step == 0);
	return AM_OK;
}
