/* A module for the tests of the golden vectors: each hook writes its decoded input,
 * answer_HOOK does the same with an answer, and other exports with other types. */
#include "../../agent_middleware.h"

static int32_t mirror(int32_t n, const am_type *t) {
	void *value = am_alloc((size_t)t->size);
	const char *wrong = am_decode(am_read_pending(n), t, value);
	am_json json = wrong == 0 ? am_encode(t, value) : am_of(wrong);
	am_host_write(json.p, json.n);
	return wrong == 0 ? 0 : 1;
}

#define MIRROR(name, type) \
	__attribute__((export_name(#name))) int32_t mirror_##name(int32_t n) { return mirror(n, &am_type_##type); }
#define MIRROR_HOOK(name) MIRROR(name, name##_input) MIRROR(answer_##name, name##_answer)

AM_EACH_HOOK(MIRROR_HOOK)
MIRROR(error, error)
MIRROR(request_patch, request_patch)
MIRROR(model_reply, model_reply)
MIRROR(call_patch, call_patch)
MIRROR(tool_reply, tool_reply)
MIRROR(sent, sent)
MIRROR(received, received)
