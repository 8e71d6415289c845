package clustersim

import (
	"context"
	"sync"
	"time"
)

// A machine is the state of a simulated process and its connections.
type machine struct {
	ended   chan struct{} // closed when the machine is killed
	mu      sync.Mutex
	dead    bool
	resumed chan struct{} // closed when the machine continues; nil if it is not paused
	cut     int           // number of faults that keep it from the database
	ahead   time.Duration // of its clock
	died    time.Time
}

func newMachine() *machine { return &machine{ended: make(chan struct{})} }

// reach waits while the machine is paused. It fails if the machine is dead or does not reach the
// database.
func (m *machine) reach() error {
	if err := m.running(); err != nil {
		return err
	}
	m.mu.Lock()
	cut := m.cut > 0
	m.mu.Unlock()
	if cut {
		time.Sleep(time.Second)
		return errCutOff
	}
	return nil
}

// running waits while the machine is paused. It fails if the machine is dead.
func (m *machine) running() error {
	for {
		m.mu.Lock()
		dead, resumed := m.dead, m.resumed
		m.mu.Unlock()
		switch {
		case dead:
			return errKilled
		case resumed == nil:
			return nil
		}
		<-resumed
	}
}

// work takes the time d, and longer if the machine is paused. It fails if ctx is done or the machine is
// dead.
func (m *machine) work(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-m.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return m.running()
}

// kill ends the machine. It reports false if the machine was dead.
func (m *machine) kill() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return false
	}
	m.dead, m.died = true, time.Now()
	close(m.ended)
	if m.resumed != nil {
		close(m.resumed)
		m.resumed = nil
	}
	return true
}

// diedAt returns the time at which the machine was killed; zero if it was not.
func (m *machine) diedAt() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.died
}

func (m *machine) pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resumed == nil && !m.dead {
		m.resumed = make(chan struct{})
	}
}

func (m *machine) proceed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resumed != nil {
		close(m.resumed)
		m.resumed = nil
	}
}

// cutOff adds n to the faults that keep the machine from the database.
func (m *machine) cutOff(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut += n
}

// jump sets the machine's clock forward by d, or back if d is negative.
func (m *machine) jump(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ahead += d
}

// now returns the time by the machine's clock.
func (m *machine) now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Add(m.ahead)
}
