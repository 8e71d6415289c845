package clusterchaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// poisonToken begins the input of runs that kill their nodes.
const poisonToken = "poison-"

// poisons kills each node that asks the model for the next step of a run whose input begins with
// poisonToken. It alternates between SIGKILL and SIGABRT, after which a Go program ends with a traceback.
type poisons struct {
	nodes func() []*node

	mu      sync.Mutex
	current string   // input of the run in progress
	killed  []*node  // by this run
	runs    []string // ids of all such runs
}

// kill kills the node that sent a request for the current run.
func (p *poisons) kill(r *http.Request) {
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.nodes() {
		if n.host.address != address {
			continue
		}
		s := syscall.SIGKILL
		if len(p.killed)%2 == 1 {
			s = syscall.SIGABRT
		}
		if n.signal(s) == nil {
			p.killed = append(p.killed, n)
		}
		select { // the node sends no other request
		case <-n.ended:
		case <-time.After(5 * time.Second):
		}
	}
}

// guard passes requests to a model. If a request is of the run whose input is p.current, guard kills
// the node that sent the request instead.
func (p *poisons) guard(to http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		current := p.current
		p.mu.Unlock()
		if current != "" && bytes.Contains(body, []byte(current)) {
			p.kill(r)
			http.Error(w, "the node is dead", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		to.ServeHTTP(w, r)
	})
}

// poison starts a run that kills its nodes, starts these again, and waits until the run is
// quarantined. It fails if the run has stopped more than two nodes, or if another run is quarantined. All
// nodes have the newest version, because older ones resume such a run again and again.
func (w *world) poison(ctx context.Context, _ *node) error {
	newest := w.programs[len(w.programs)-1]
	if slices.ContainsFunc(w.nodes, func(n *node) bool { return n.program != newest }) {
		if err := w.replace(newest); err != nil {
			return err
		}
	}
	p := w.poisons
	p.mu.Lock()
	token := fmt.Sprint(poisonToken, len(p.runs))
	p.current, p.killed = token, nil
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.current = ""
	}()
	began := time.Now()
	var id string
	for id == "" { // the run's first node may die before it responds
		run, err := w.client.StartRun(ctx, &api.StartRun{Agent: "payer", Input: token}, token)
		switch {
		case err == nil:
			id = run.ID
		case ctx.Err() != nil || time.Since(began) > endTimeout:
			return fmt.Errorf("start %s: %w", token, err)
		}
		if err := w.revive(); err != nil {
			return err
		}
	}
	for {
		if err := w.revive(); err != nil {
			return err
		}
		info, err := w.store.Run(ctx, id)
		if err == nil && info.Status == journal.StatusQuarantined {
			break
		}
		if time.Since(began) > endTimeout {
			return fmt.Errorf("run %s is not quarantined: %w", id, errors.Join(err, fmt.Errorf("%+v", info)))
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.mu.Lock()
	stopped := map[*node]bool{}
	for _, n := range p.killed {
		stopped[n] = true
	}
	kills := len(p.killed)
	p.runs = append(p.runs, id)
	p.mu.Unlock()
	w.others = append(w.others, id)
	time.Sleep(time.Second) // until a node that it has just killed has ended
	if err := w.revive(); err != nil {
		return err
	}
	w.t.Logf("the poison run ended %d processes of %d nodes, and was quarantined after %v", kills, len(stopped),
		time.Since(began).Round(100*time.Millisecond))
	if len(stopped) > 2 {
		return fmt.Errorf("run %s stopped %d nodes", id, len(stopped))
	}
	if err := w.quarantined(ctx); err != nil {
		return err
	}
	_, err := w.client.CancelRun(ctx, id)
	return err
}

// revive starts the nodes again that have ended, a second later.
func (w *world) revive() error {
	for _, n := range w.nodes {
		if !n.isEnded() {
			continue
		}
		time.Sleep(time.Second)
		if err := n.start(); err != nil && !n.isEnded() {
			return err
		}
	}
	return nil
}

// quarantined returns an error if a run is quarantined that does not kill its nodes.
func (w *world) quarantined(ctx context.Context) error {
	list, _, err := w.store.Quarantined(ctx, store.Page{Limit: 100})
	if err != nil {
		return err
	}
	for _, e := range list {
		honest := true
		for _, id := range w.poisons.runs {
			honest = honest && id != e.Run
		}
		if honest {
			return fmt.Errorf("run %s is quarantined: %s", e.Run, e.Reason)
		}
	}
	return nil
}
