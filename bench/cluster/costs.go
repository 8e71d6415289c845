package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agent-runner/agent-runner/bench/internal/load"
	"github.com/agent-runner/agent-runner/bench/internal/process"
)

// idleTime is the time for which a cluster without runs is measured.
const idleTime = 10 * time.Second

// counters has numbers of what PostgreSQL and the servers did since they started.
type counters struct {
	commits, rows, wal, size, connections int64
	hints                                 int64
	postgres, servers                     time.Duration // processor time
}

// costs measures what a run costs PostgreSQL and the servers, and what a cluster costs without runs.
func costs(s *setup) error {
	c, err := s.cluster(3, "notify", 0)
	if err != nil {
		return err
	}
	listener := &hintCounter{}
	if err := listener.listen(c.database); err != nil {
		return err
	}
	defer listener.close()
	pid, err := c.postmaster()
	if err != nil {
		return err
	}
	begin, err := c.count(pid, listener)
	if err != nil {
		return err
	}
	time.Sleep(idleTime)
	idle, err := c.count(pid, listener)
	if err != nil {
		return err
	}
	server, err := process.Read(c.nodes[0].PID())
	if err != nil {
		return err
	}
	seconds := idleTime.Seconds() + flushTime.Seconds()
	fmt.Fprintf(
		&s.text,
		"## Costs\n\nThree servers without runs: %.1f transactions, %.0f hints and %.1f KB of WAL a second, %.1f ms of PostgreSQL's processor time, and %d connections. A server holds %d MB.\n\n"+
			"What a run adds, of %d runs, %d at once, each followed at its own server:\n\n"+
			"| modules | transactions | rows | WAL | size in the database | hints | PostgreSQL's processor time | servers' processor time |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
		float64(idle.commits-begin.commits)/seconds,
		float64(idle.hints-begin.hints)/seconds,
		float64(idle.wal-begin.wal)/seconds/1024,
		(idle.postgres-begin.postgres).Seconds()*1000/seconds,
		idle.connections,
		server.Resident>>20,
		s.costs,
		atOnce,
	)
	for modules, agent := range []string{"plain", "module"} {
		before, err := c.count(pid, listener)
		if err != nil {
			return err
		}
		if err := load.Each(atOnce, s.costs, func(i int) error { return c.run(i, agent) }); err != nil {
			return err
		}
		after, err := c.count(pid, listener)
		if err != nil {
			return err
		}
		per := func(a, b int64) float64 { return float64(b-a) / float64(s.costs) }
		used := func(a, b time.Duration) float64 { return (b - a).Seconds() * 1000 / float64(s.costs) }
		fmt.Fprintf(
			&s.text,
			"| %d | %.1f | %.1f | %.1f KB | %.1f KB | %.1f | %.1f ms | %.1f ms |\n",
			modules,
			per(before.commits, after.commits),
			per(before.rows, after.rows),
			per(before.wal, after.wal)/1024,
			per(before.size, after.size)/1024,
			per(before.hints, after.hints),
			used(before.postgres, after.postgres),
			used(before.servers, after.servers),
		)
	}
	s.text.WriteString("\n")
	return nil
}

// atOnce is the number of concurrent runs whose costs are measured.
const atOnce = 4

// flushTime is the time after which PostgreSQL's statistics are complete.
const flushTime = 2 * time.Second

// count returns the counters.
func (c *cluster) count(postmaster int, l *hintCounter) (n counters, err error) {
	time.Sleep(flushTime)
	err = c.query(context.Background(), c.database, func(ctx context.Context, db *pgx.Conn) error {
		return db.QueryRow(ctx, `SELECT xact_commit, tup_inserted + tup_updated + tup_deleted,
				(pg_current_wal_insert_lsn() - '0/0')::bigint, pg_database_size(datname),
				(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database())
			FROM pg_stat_database WHERE datname = current_database()`).
			Scan(&n.commits, &n.rows, &n.wal, &n.size, &n.connections)
	})
	n.connections -= 2 // this one, and the listener's
	n.postgres = usedBy(postmaster)
	for _, s := range c.nodes {
		server, _ := process.Read(s.PID())
		n.servers += server.Used
	}
	n.hints = l.count()
	return n, err
}

// A hintCounter counts the hints that servers send with NOTIFY.
type hintCounter struct {
	stop context.CancelFunc
	done chan struct{}

	mu sync.Mutex
	n  int64
}

// listen starts to count the hints in a database.
func (l *hintCounter) listen(url string) error {
	ctx, stop := context.WithCancel(context.Background())
	l.stop, l.done = stop, make(chan struct{})
	db, err := pgx.Connect(ctx, url)
	if err == nil {
		_, err = db.Exec(ctx, "LISTEN agent_runner_hints")
	}
	if err != nil {
		stop()
		return err
	}
	go func() {
		defer close(l.done)
		defer db.Close(context.Background())
		for {
			if _, err := db.WaitForNotification(ctx); err != nil {
				return
			}
			l.mu.Lock()
			l.n++
			l.mu.Unlock()
		}
	}()
	return nil
}

func (l *hintCounter) count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

func (l *hintCounter) close() {
	l.stop()
	<-l.done
}
