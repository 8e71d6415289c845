package server

import (
	"log/slog"
	"sync"

	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/overload"
)

// This file exports to package server_test what its tests need.

// HeaderBytes is headerBytes.
const HeaderBytes = headerBytes

// Work returns the group of the server's background work, such as runs.
func (s *Server) Work() *sync.WaitGroup { return &s.work }

// EvictFrom returns a function that cancels the largest run of the account process.
func EvictFrom(process *account.Account) func(overload.State) bool {
	e := newEvictor(slog.New(slog.DiscardHandler))
	e.process = process
	return e.evict
}

// Drain begins the shutdown, as [Server.Serve] does when its context is done.
func (s *Server) Drain() { s.drainOnce.Do(func() { close(s.draining) }) }

// Abort ends the drain time.
func (s *Server) Abort() { s.abort.Do(func() { close(s.aborted) }) }
