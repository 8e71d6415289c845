package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agent-runner/agent-runner/bench/internal/load"
	"github.com/agent-runner/agent-runner/bench/internal/process"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
)

// Shares of the processors, of which two suffice. What remains is for the load generator and the model.
const (
	nodeShare     = 0.2 // of each server
	postgresShare = 0.7
	workers       = 24 // concurrent runs
)

// throughput compares the runs per second of three servers with those of one, in alternating rounds.
// Each server has the same processor quota, and PostgreSQL one of its own.
func throughput(s *setup) error {
	one, err := s.cluster(1, "notify", nodeShare)
	if err != nil {
		return err
	}
	three, err := s.cluster(3, "notify", nodeShare)
	if err != nil {
		return err
	}
	pid, err := one.postmaster()
	if err != nil {
		return err
	}
	group, err := newQuota("postgres", postgresShare)
	if err != nil {
		return err
	}
	defer group.remove()
	if err := addAll(group, pid); err != nil {
		return err
	}
	defer func() { _ = addAll(group.above(), pid) }()
	fmt.Fprintf(
		&s.text,
		"## Runs per second\n\nEach server may use %.0f %% of a processor, and PostgreSQL %.0f %%. %d concurrent runs; %d rounds of %v with one server, and as many with three, in turns. "+
			"The range after a ratio holds 90 of 100 bootstrap draws of pairs of rounds. PostgreSQL's processor time is that of three servers' rounds.\n\n"+
			"| modules | one server | three servers | ratio | PostgreSQL |\n| ---: | ---: | ---: | ---: | ---: |\n",
		100*nodeShare,
		100*postgresShare,
		workers,
		s.rounds,
		s.round,
	)
	for modules, agent := range []string{"plain", "module"} {
		var ones, threes []float64
		var used time.Duration
		for i := range 2 * s.rounds {
			if (i+1)/2%2 == 0 { // 1 3 3 1 1 3 3 1 …
				n, err := one.load(agent, s.round)
				if err != nil {
					return err
				}
				ones = append(ones, n)
				continue
			}
			before := usedBy(pid)
			n, err := three.load(agent, s.round)
			if err != nil {
				return err
			}
			used += usedBy(pid) - before
			threes = append(threes, n)
		}
		fmt.Fprintf(&s.text, "| %d | %.0f | %.0f | %s | %.0f %% |\n", modules, mean(ones), mean(threes),
			stats.NewRatio(ones, threes, mean), 100*used.Seconds()/(s.round.Seconds()*float64(len(threes))))
	}
	s.text.WriteString("\n")
	return nil
}

// load runs an agent for the duration d with concurrent workers, at the servers and for the tenants in
// turn. It returns the number of runs per second.
func (c *cluster) load(agent string, d time.Duration) (perSecond float64, err error) {
	times, took, err := load.For(workers, d, func(i int) error { return c.run(i, agent) })
	return float64(len(times)) / took.Seconds(), err
}

// postmaster returns the process id of PostgreSQL.
func (c *cluster) postmaster() (pid int, err error) {
	err = c.query(context.Background(), c.database, func(ctx context.Context, db *pgx.Conn) error {
		backend := 0
		if err := db.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
			return err
		}
		s, err := process.Read(backend)
		pid = s.Parent
		return err
	})
	return pid, err
}

// usedBy returns the processor time of a process and its children.
func usedBy(pid int) time.Duration {
	s, _ := process.Read(pid)
	children, _ := process.Children(pid)
	for _, child := range children {
		s.Used += child.Used
	}
	return s.Used
}

// addAll moves a process and its children into a group, except children that have ended.
func addAll(q *quota, pid int) error {
	err := q.add(pid) // first, so that later children belong to the group
	children, e := process.Children(pid)
	err = errors.Join(err, e)
	for _, child := range children {
		if e := q.add(child.PID); !errors.Is(e, syscall.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	return err
}
