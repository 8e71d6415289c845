package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/agent-runner/agent-runner/bench/internal/apiclient"
	"github.com/agent-runner/agent-runner/bench/internal/serving"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
)

// tenants is the number of tenants of a cluster. Their runs take turns.
const tenants = 10

// A cluster is a PostgreSQL server, the servers that share a database of it, and their tenants.
type cluster struct {
	program, model string
	postgres       *postgrestest.Server
	database       string // URL
	dir            string
	transport      string // of hints: notify or nats
	quotas         []*quota
	share          float64 // processors of each server; 0 for no quota
	nodes          []*node
	operator       string   // key
	keys           []string // keys of the tenants
	http           *http.Client
}

// A node is one server of a cluster, with a client for the operator and one for each tenant.
type node struct {
	*serving.Server
	operator *apiclient.Client
	tenants  []*apiclient.Client
}

// newCluster starts servers of a program on an empty database, and creates tenants with agents. share is
// the number of processors of each server; 0 selects no quota.
func newCluster(s *setup, servers int, transport string, share float64) (c *cluster, err error) {
	c = &cluster{program: s.program, model: s.model.URL, postgres: s.postgres, transport: transport, share: share,
		http: apiclient.Pool()}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.dir, err = os.MkdirTemp("", "bench-cluster"); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(c.dir, "password"), []byte("the password of the cluster"), 0o600); err != nil {
		return nil, err
	}
	if c.database, err = s.create(); err != nil {
		return nil, err
	}
	c.nodes = make([]*node, servers)
	c.quotas = make([]*quota, servers)
	for i := range c.nodes {
		if err := c.start(i); err != nil {
			return nil, err
		}
	}
	return c, c.populate(s.guest)
}

// start starts server number i, or starts it again, and waits until it is ready.
func (c *cluster) start(i int) error {
	dir := filepath.Join(c.dir, strconv.Itoa(i))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var args []string
	if c.transport == "nats" {
		args = append(args, "--cluster-listen", natsAddress(i), "--cluster-password-file", filepath.Join(c.dir, "password"))
		for j := range c.nodes {
			if j != i {
				args = append(args, "--join", natsAddress(j))
			}
		}
	}
	s, err := serving.Start(&serving.Options{
		Program: c.program,
		Dir:     dir,
		Store:   c.database,
		Model:   c.model,
		Args:    args,
		Started: func(pid int) error { return c.limit(i, pid) },
	})
	if err != nil {
		return err
	}
	n := &node{Server: s}
	c.nodes[i] = n
	if c.operator == "" {
		c.operator = n.OperatorKey()
	}
	if n.operator, err = apiclient.New(c.http, n.URL, c.operator); err != nil {
		return err
	}
	return n.connect(c)
}

// connect creates the clients of the tenants that the cluster has.
func (n *node) connect(c *cluster) error {
	for _, key := range c.keys[len(n.tenants):] {
		t, err := apiclient.New(c.http, n.URL, key)
		if err != nil {
			return err
		}
		n.tenants = append(n.tenants, t)
	}
	return nil
}

// limit moves server number i, with the given process id, into its control group.
func (c *cluster) limit(i, pid int) (err error) {
	if c.share == 0 {
		return nil
	}
	if c.quotas[i] == nil {
		if c.quotas[i], err = newQuota(fmt.Sprint(filepath.Base(c.dir), "-", i), c.share); err != nil {
			return err
		}
	}
	return c.quotas[i].add(pid)
}

func natsAddress(i int) string { return fmt.Sprint("127.0.0.1:", 46222+i) }

// close ends the servers and deletes what they stored.
func (c *cluster) close() {
	var all sync.WaitGroup
	for i, n := range c.nodes {
		all.Go(func() {
			if n != nil {
				n.Kill()
			}
			if c.quotas[i] != nil {
				c.quotas[i].remove()
			}
		})
	}
	all.Wait()
	_ = os.RemoveAll(c.dir)
	if c.database != "" {
		_ = c.query(context.Background(), c.postgres.URL("postgres"), func(ctx context.Context, db *pgx.Conn) error {
			_, err := db.Exec(ctx, `DROP DATABASE `+databaseOf(c.database)+` WITH (FORCE)`)
			return err
		})
	}
}

// query calls use with a connection to the database at a URL.
func (c *cluster) query(ctx context.Context, url string, use func(context.Context, *pgx.Conn) error) error {
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(use(ctx, db), db.Close(ctx))
}

// populate creates the tenants, and for each an agent without modules, one with a module, and two whose
// answers are slow.
func (c *cluster) populate(guest []byte) error {
	ctx := context.Background()
	for i := range tenants {
		t, err := c.nodes[0].operator.NewTenant(ctx, fmt.Sprint("tenant-", i), nil)
		if err != nil {
			return err
		}
		c.keys = append(c.keys, t.Key())
		if err := t.Upload(ctx, "look", guest); err != nil {
			return err
		}
		for name, text := range map[string]string{
			"plain":  "model: {name: steps}\ntools: {builtin: [calculator]}\n",
			"module": "model: {name: steps}\ntools: {builtin: [calculator]}\nmiddlewares:\n  - {module: look, config: {at: all}}\n",
			"slow":   "model: {name: slow}\n",
			"ticks":  "model: {name: ticks}\nlimits: {max_steps: 1000}\ntools: {builtin: [calculator]}\nmiddlewares:\n  - {module: look, config: {at: all}}\n",
		} {
			if _, err := t.PutAgent(ctx, name, []byte(text)); err != nil {
				return err
			}
		}
	}
	for _, n := range c.nodes {
		if err := n.connect(c); err != nil {
			return err
		}
	}
	return c.warm()
}

// warm runs each agent of each tenant on each server, so that no measured run waits for a compiler.
func (c *cluster) warm() error {
	for _, n := range c.nodes {
		for _, t := range n.tenants {
			for _, agent := range []string{"plain", "module"} {
				if err := t.Run(context.Background(), agent); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// run runs an agent, with servers and tenants that depend on the number i of the run: in turn.
func (c *cluster) run(i int, agent string) error {
	n := c.nodes[i%len(c.nodes)]
	return n.tenants[i%len(n.tenants)].Run(context.Background(), agent)
}

// databaseOf returns the name of the database in a URL.
func databaseOf(url string) string {
	name, _, _ := strings.Cut(url[strings.LastIndexByte(url, '/')+1:], "?")
	return name
}
