package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/hints"
)

const (
	// beatInterval is the time between two heartbeats over the bus.
	beatInterval = 250 * time.Millisecond
	// Silence is the time without a heartbeat over the bus after which a server counts as silent.
	Silence = time.Second
	// sweepInterval is the time between two searches for ended servers from which this process never
	// received a heartbeat, such as those that ended before this one started.
	sweepInterval = 3 * time.Second
	// forgetTime is the time after which a silent server is removed from the list.
	forgetTime = time.Minute

	maxMembers = 1024
	maxName    = 256 // bytes of the name of a server or of its machine

	topicBeat = "beat"
)

// A Member is a server of the cluster, as of its last heartbeat.
type Member struct {
	Owner    string `json:"owner"` // the server's name in the runs that it executes
	Node     string `json:"node"`  // the name of its machine
	Version  string `json:"version,omitempty"`
	Runs     int    `json:"runs"` // runs in progress there
	Draining bool   `json:"draining,omitempty"`
	Ended    bool   `json:"ended,omitempty"` // the server has ended cleanly

	Seen   time.Time `json:"-"` // when this server received the heartbeat
	Silent bool      `json:"-"` // no heartbeat arrived in the last second (Silence)
}

// Options configure [Members]. Bus, Self and End are required.
type Options struct {
	Bus hints.Bus
	// Self returns the state of this server, for its heartbeats.
	Self func() Member
	// End expires the leases of the servers that have no recent heartbeat in the database, except those
	// in heard. It returns the servers whose runs can now be claimed.
	End func(ctx context.Context, heard []string) ([]string, error)
	// Claim is called when runs can be claimed.
	Claim  func(ctx context.Context)
	Logger *slog.Logger
	// Now returns the time. The default is [time.Now].
	Now func() time.Time
}

// Members holds the servers of the cluster. [New] returns one. It is safe for concurrent use.
type Members struct {
	o       *Options
	started time.Time
	swept   time.Time // used by Watch only

	mu sync.Mutex
	of map[string]*Member
}

// New returns the members of a cluster, of which none is known yet.
func New(o *Options) *Members {
	own := *o
	if own.Now == nil {
		own.Now = time.Now
	}
	return &Members{o: &own, of: map[string]*Member{}}
}

// Watch sends heartbeats and searches for servers that have ended, until ctx is done. The last
// heartbeat tells the other servers that this server has ended.
func (m *Members) Watch(ctx context.Context) {
	cancel, err := m.o.Bus.Subscribe(topicBeat, m.receive)
	if err != nil {
		m.o.Logger.Error("subscribe to heartbeats", "error", err)
		return
	}
	defer cancel()
	m.started = m.o.Now()
	m.swept = m.started
	ticker := time.NewTicker(beatInterval)
	defer ticker.Stop()
	for {
		self := m.o.Self()
		m.send(&self)
		m.look(ctx)
		select {
		case <-ctx.Done():
			self.Ended = true
			m.send(&self)
			return
		case <-ticker.C:
		}
	}
}

// send sends a heartbeat.
func (m *Members) send(self *Member) {
	b, err := json.Marshal(self)
	if err == nil {
		err = m.o.Bus.Publish(topicBeat, b)
	}
	if err != nil {
		m.o.Logger.Error("send heartbeat", "error", err)
	}
}

// receive records a heartbeat. It ignores invalid ones.
func (m *Members) receive(hint []byte) {
	var beat Member
	if json.Unmarshal(hint, &beat) != nil || beat.Owner == "" || len(beat.Owner) > maxName || len(beat.Node) > maxName ||
		len(beat.Version) > maxName {
		return
	}
	beat.Seen = m.o.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch _, known := m.of[beat.Owner]; {
	case beat.Ended:
		delete(m.of, beat.Owner)
	case known || len(m.of) < maxMembers:
		m.of[beat.Owner] = &beat
	}
}

// look lets the leases of silent servers expire. It queries the database only if a known server is
// silent, or if sweepInterval has passed.
func (m *Members) look(ctx context.Context) {
	now := m.o.Now()
	if now.Sub(m.started) < Silence {
		return // heartbeats of the other servers have not had the time to arrive
	}
	heard, silent := m.heard(now)
	if !silent && now.Sub(m.swept) < sweepInterval {
		return
	}
	m.swept = now
	ended, err := m.o.End(ctx, heard)
	if err != nil {
		if ctx.Err() == nil {
			m.o.Logger.Error("look for servers that have ended", "error", err)
		}
		return
	}
	m.mu.Lock()
	for _, owner := range ended {
		delete(m.of, owner)
	}
	m.mu.Unlock()
	if len(ended) > 0 {
		m.o.Logger.Warn("servers have ended: their runs are resumed elsewhere", "servers", ended)
		m.o.Claim(ctx)
	}
}

// heard returns the servers that are not silent. silent reports whether a known server is silent.
// heard removes servers that have been silent for forgetTime.
func (m *Members) heard(now time.Time) (heard []string, silent bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	heard = []string{}
	for owner, member := range m.of {
		switch quiet := now.Sub(member.Seen); {
		case quiet > forgetTime:
			delete(m.of, owner)
		case quiet >= Silence:
			silent = true
		default:
			heard = append(heard, owner)
		}
	}
	return heard, silent
}

// Executing returns the owners of the servers that start and resume runs: those that are neither silent
// nor draining. m may be nil, for a single server.
func (m *Members) Executing() (owners []string) {
	if m == nil {
		return nil
	}
	for _, member := range m.List() {
		if !member.Silent && !member.Draining {
			owners = append(owners, member.Owner)
		}
	}
	return owners
}

// List returns the known servers, ordered by machine and name.
func (m *Members) List() []Member {
	now := m.o.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Member, 0, len(m.of))
	for _, member := range m.of {
		shown := *member
		shown.Silent = now.Sub(member.Seen) >= Silence
		out = append(out, shown)
	}
	slices.SortFunc(out, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Owner, b.Owner))
	})
	return out
}
