package server

import (
	"context"
	"sync"
	"time"
)

// turns let so much work go on at once, and share it between tenants: who has waited
// longest of those whose tenant had its last turn longest ago is next. A tenant never
// has all of them, however much it asks for, so that another one's first piece of work
// waits for none of its.
type turns struct {
	what    string // that is waited for, as a quota is called
	each    int    // that a tenant has at once at most
	waiters int    // of a tenant at most; more are refused

	mu      sync.Mutex
	free    int
	tenants map[string]*turnsOf // that have or want some
	order   []*turnsOf          // that want some: the next first
}

// turnsOf are those of a tenant.
type turnsOf struct {
	held    int
	waiting []chan struct{}
}

// newTurns makes so many.
func newTurns(what string, all, each, waiters int) *turns {
	return &turns{what: what, each: each, waiters: waiters, free: all, tenants: map[string]*turnsOf{}}
}

// newProcessors are turns of the processors, for what keeps one busy for longer than
// others should wait: guests that run for long, large bodies that are read. A tenant has
// half of them.
func newProcessors(all int) *turns {
	return newTurns("turns of a processor", all, max(1, all/2), 1<<20)
}

// turnRetry is when another try is worth it where too much waits.
const turnRetry = 5 * time.Second

// take waits for a turn, which done ends; twice is once.
func (t *turns) take(ctx context.Context, tenant string) (done func(), err error) {
	t.mu.Lock()
	of := t.tenants[tenant]
	if of == nil {
		of = &turnsOf{}
		t.tenants[tenant] = of
	}
	if len(of.waiting) >= t.waiters {
		t.mu.Unlock()
		return nil, quotaProblem(t.what, turnRetry, "%d %s of this tenant wait for their turn; wait until some of them are done", t.waiters, t.what)
	}
	mine := make(chan struct{})
	if of.waiting = append(of.waiting, mine); len(of.waiting) == 1 {
		t.order = append(t.order, of)
	}
	t.serve()
	t.mu.Unlock()
	done = sync.OnceFunc(func() { t.end(tenant, of) })
	select {
	case <-mine:
		return done, nil
	case <-ctx.Done():
	}
	if !t.leave(tenant, of, mine) {
		done() // it was served meanwhile
	}
	return nil, context.Cause(ctx)
}

// serve gives turns that are free. The caller holds mu.
func (t *turns) serve() {
	for i := 0; i < len(t.order) && t.free > 0; {
		of := t.order[i]
		if of.held >= t.each {
			i++
			continue
		}
		close(of.waiting[0])
		of.waiting = of.waiting[1:]
		of.held++
		t.free--
		t.order = append(t.order[:i:i], t.order[i+1:]...)
		if len(of.waiting) > 0 {
			t.order = append(t.order, of)
		}
		i = 0
	}
}

func (t *turns) end(tenant string, of *turnsOf) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of.held--
	t.free++
	t.forget(tenant, of)
	t.serve()
}

// leave takes one that waits out of the line; false if it waits no longer.
func (t *turns) leave(tenant string, of *turnsOf, mine chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, w := range of.waiting {
		if w != mine {
			continue
		}
		of.waiting = append(of.waiting[:i:i], of.waiting[i+1:]...)
		if len(of.waiting) == 0 {
			for j, o := range t.order {
				if o == of {
					t.order = append(t.order[:j:j], t.order[j+1:]...)
					break
				}
			}
		}
		t.forget(tenant, of)
		return true
	}
	return false
}

// forget drops a tenant that has none and wants none. The caller holds mu.
func (t *turns) forget(tenant string, of *turnsOf) {
	if of.held == 0 && len(of.waiting) == 0 {
		delete(t.tenants, tenant)
	}
}
