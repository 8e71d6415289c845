package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
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
	if err := errors.Join(addAll(group, pid), addAll(group, children(pid)...)); err != nil {
		return err
	}
	defer func() { _ = errors.Join(leaveAll(group, pid), leaveAll(group, children(pid)...)) }()
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
			ratio(ones, threes, mean), 100*used.Seconds()/(s.round.Seconds()*float64(len(threes))))
	}
	s.text.WriteString("\n")
	return nil
}

// load runs an agent for the duration d with concurrent workers, at the servers and for the tenants in
// turn. It returns the number of runs per second.
func (c *cluster) load(agent string, d time.Duration) (perSecond float64, err error) {
	var next, ended atomic.Int64
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for range workers {
		all.Go(func() {
			for time.Since(began) < d {
				i := int(next.Add(1))
				if e := c.run(c.nodes[i%len(c.nodes)], c.keys[i%len(c.keys)], agent); e != nil {
					mu.Lock()
					defer mu.Unlock()
					err = errors.Join(err, e)
					return
				}
				ended.Add(1)
			}
		})
	}
	all.Wait()
	return float64(ended.Load()) / time.Since(began).Seconds(), err
}

// postmaster returns the process id of PostgreSQL.
func (c *cluster) postmaster() (pid int, err error) {
	err = c.query(context.Background(), c.database, func(ctx context.Context, db *pgx.Conn) error {
		backend := 0
		if err := db.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
			return err
		}
		pid = statOf(backend).parent
		return nil
	})
	return pid, err
}

// A stat has fields of /proc/PID/stat.
type stat struct {
	parent int
	used   time.Duration // processor time, with that of children that have ended
}

// statOf returns the stat of a process, or the zero value if there is none.
func statOf(pid int) (s stat) {
	const tick = 10 * time.Millisecond // the unit of processor times
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s
	}
	_, rest, _ := strings.Cut(string(b), ") ") // the program's name before it may contain any character
	fields := strings.Fields(rest)
	s.parent, _ = strconv.Atoi(fields[1])
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		n, _ := strconv.ParseInt(field, 10, 64)
		s.used += time.Duration(n) * tick
	}
	return s
}

// children returns the children of a process.
func children(pid int) (out []int) {
	list, _ := os.ReadDir("/proc")
	for _, e := range list {
		if id, err := strconv.Atoi(e.Name()); err == nil && statOf(id).parent == pid {
			out = append(out, id)
		}
	}
	return out
}

// usedBy returns the processor time of a process and its children.
func usedBy(pid int) time.Duration {
	used := statOf(pid).used
	for _, child := range children(pid) {
		used += statOf(child).used
	}
	return used
}

// resident returns the resident memory of a process in bytes.
func resident(pid int) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// addAll moves processes into a group, except those that have ended.
func addAll(q *quota, pids ...int) (err error) {
	for _, pid := range pids {
		if e := q.add(pid); !errors.Is(e, syscall.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// leaveAll moves processes back to the group above a group.
func leaveAll(q *quota, pids ...int) error { return addAll(q.above(), pids...) }
