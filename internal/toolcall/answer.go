package toolcall

import (
	"context"
	"encoding/json"
)

type answerKey struct{}

// WithAnswer returns a context for repeating the call of a tool whose interrupt was
// answered.
func WithAnswer(ctx context.Context, answer json.RawMessage) context.Context {
	return context.WithValue(ctx, answerKey{}, answer)
}

// Answer returns the answer to the interrupt of this call. ok is false in the first call.
func Answer(ctx context.Context) (answer json.RawMessage, ok bool) {
	answer, ok = ctx.Value(answerKey{}).(json.RawMessage)
	return answer, ok
}
