package store

import "context"

type urgentKey struct{}

// urgent returns a context for writes that control something: a cancel, a block, a lease's
// renewal, the end of a run that was stopped. SQLite's writer takes them before others.
func urgent(ctx context.Context) context.Context {
	return context.WithValue(ctx, urgentKey{}, true)
}

func isUrgent(ctx context.Context) bool {
	is, _ := ctx.Value(urgentKey{}).(bool)
	return is
}
