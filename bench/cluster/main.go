// Command cluster measures servers that share a PostgreSQL database, and writes the figures as
// Markdown:
//
//	cluster [-quick] [-part NAME] AGENT-RUNNER GUEST.wasm OUT.md
//
// It starts PostgreSQL, servers, and a model that answers at once, on the loopback interface. It needs
// Linux, root for processor quotas, and PostgreSQL's programs. Ctrl-C ends what it has started.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agent-runner/agent-runner/bench/internal/chatmodel"
	"github.com/agent-runner/agent-runner/bench/internal/machine"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
)

// A plan has the sizes of the measurements.
type plan struct {
	rounds   int           // rounds with three servers, and as many with one
	round    time.Duration // duration of a round of the throughput
	runs     int           // runs in a round of the latency
	followed []int         // numbers of runs that are followed at once
	kills    int
	samples  int // of each change that reaches other servers
	costs    int // runs whose costs are measured
}

// A setup is what the clusters share.
type setup struct {
	plan
	program  string
	guest    []byte
	model    *chatmodel.Server
	postgres *postgrestest.Server
	made     int // databases
	text     bytes.Buffer

	mu   sync.Mutex
	open []*cluster
}

func main() {
	quick := flag.Bool("quick", false, "fewer and shorter rounds")
	only := flag.String("part", "", "measure only this part: throughput, latency, events, takeover, control or costs")
	flag.Parse()
	if flag.NArg() != 3 {
		fmt.Fprintln(os.Stderr, "usage: cluster [-quick] [-part NAME] AGENT-RUNNER GUEST.wasm OUT.md")
		os.Exit(2)
	}
	p := plan{
		rounds:   12,
		round:    4 * time.Second,
		runs:     40,
		followed: []int{1, 10, 100},
		kills:    20,
		samples:  50,
		costs:    400,
	}
	if *quick {
		p = plan{rounds: 3, round: time.Second, runs: 10, followed: []int{1, 5}, kills: 2, samples: 5, costs: 50}
	}
	if err := measure(p, *only, flag.Arg(0), flag.Arg(1), flag.Arg(2)); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// measure measures all parts, or only the part that only names, and writes the figures to the file out.
func measure(p plan, only, program, guest, out string) (err error) {
	s := &setup{plan: p}
	if s.program, err = filepath.Abs(program); err != nil {
		return err
	}
	if s.guest, err = os.ReadFile(guest); err != nil {
		return err
	}
	if s.model, err = chatmodel.Start(answer); err != nil {
		return err
	}
	defer s.model.Close()
	if err := os.Setenv(postgrestest.EnvRequired, "1"); err != nil {
		return err
	}
	if s.postgres, err = postgrestest.New(); err != nil {
		return err
	}
	defer s.close()
	go s.closeOnSignal()
	if err := s.postgres.Configure("fsync=on", "full_page_writes=on", "autovacuum=on", "wal_level=replica",
		"shared_buffers=256MB", "max_connections=200"); err != nil {
		return err
	}
	s.head()
	for _, part := range []struct {
		name string
		of   func(*setup) error
	}{
		{"throughput", throughput},
		{"latency", latency},
		{"events", events},
		{"takeover", takeover},
		{"control", control},
		{"costs", costs},
	} {
		if only != "" && only != part.name {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring", part.name)
		if err := part.of(s); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		s.closeClusters()
	}
	return os.WriteFile(out, s.text.Bytes(), 0o644)
}

// head writes the beginning of the figures.
func (s *setup) head() {
	fmt.Fprintf(
		&s.text,
		"# A cluster in figures\n\nGenerated, written by `make bench-cluster`: %s, %d processors, Go %s. "+
			"[scale.md](scale.md) says what follows from them.\n\n"+
			"The servers, PostgreSQL (fsync on, WAL for replicas), the model, which answers at once, and the load generator share "+
			"the machine. A run has four steps: three calls of a tool, and an answer. All runs are stored, and a client reads all "+
			"their events. The runs belong to %d tenants in turn. A module is %d KB of a Go guest with a hook at each point.\n\n"+
			"Load average at the start: %s. Above 0.5, other programs were running and the figures are unreliable.\n\n",
		machine.Processor(),
		runtime.NumCPU(),
		strings.TrimPrefix(runtime.Version(), "go"),
		tenants,
		len(s.guest)>>10,
		machine.LoadAverage(),
	)
}

// cluster starts servers; see [newCluster]. They end with the part.
func (s *setup) cluster(servers int, transport string, share float64) (*cluster, error) {
	c, err := newCluster(s, servers, transport, share)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open = append(s.open, c)
	}
	return c, err
}

// create creates a database and returns its URL.
func (s *setup) create() (string, error) {
	s.made++
	name := fmt.Sprint("cluster", s.made)
	db, err := pgx.Connect(context.Background(), s.postgres.URL("postgres"))
	if err != nil {
		return "", err
	}
	_, err = db.Exec(context.Background(), "CREATE DATABASE "+name)
	return s.postgres.URL(name), errors.Join(err, db.Close(context.Background()))
}

func (s *setup) closeClusters() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		c.close()
	}
	s.open = nil
}

func (s *setup) close() {
	s.closeClusters()
	s.postgres.Close()
}

// closeOnSignal ends the program and what it has started on Ctrl-C.
func (s *setup) closeOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	<-signals
	s.close()
	fmt.Fprintln(os.Stderr, "cluster: interrupted")
	os.Exit(130)
}
