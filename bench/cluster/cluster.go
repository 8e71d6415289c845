package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

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
	operator       string // key
	keys           []string
	client         *http.Client
}

// A node is one server of a cluster.
type node struct {
	cmd  *exec.Cmd
	url  string
	done chan struct{}
}

// newCluster starts servers of a program on an empty database, and creates tenants with agents. share is
// the number of processors of each server; 0 selects no quota.
func newCluster(s *setup, servers int, transport string, share float64) (c *cluster, err error) {
	c = &cluster{program: s.program, model: s.model.url, postgres: s.postgres, transport: transport, share: share,
		client: &http.Client{Transport: &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096}}}
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
	listen, err := freeAddress()
	if err != nil {
		return err
	}
	dir := filepath.Join(c.dir, strconv.Itoa(i))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	args := []string{
		"serve",
		"--listen",
		listen,
		"--store",
		c.database,
		"--cache-dir",
		filepath.Join(dir, "cache"),
		"--log",
		"off",
	}
	if c.transport == "nats" {
		args = append(args, "--cluster-listen", natsAddress(i), "--cluster-password-file", filepath.Join(c.dir, "password"))
		for j := range c.nodes {
			if j != i {
				args = append(args, "--join", natsAddress(j))
			}
		}
	}
	n := &node{cmd: exec.Command(c.program, args...), url: "http://" + listen, done: make(chan struct{})}
	n.cmd.Dir = dir
	n.cmd.Env = append(os.Environ(), "OPENAI_BASE_URL="+c.model, "OPENAI_API_KEY=none", "TMPDIR="+dir)
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	key, err := n.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var said bytes.Buffer
	n.cmd.Stderr = &said
	if err := n.cmd.Start(); err != nil {
		return err
	}
	c.nodes[i] = n
	shown := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(key).ReadString('\n')
		shown <- strings.TrimSpace(line)
		_ = n.cmd.Wait()
		close(n.done)
	}()
	if err := c.limit(i); err != nil {
		return err
	}
	for range 1200 {
		select {
		case <-n.done:
			return fmt.Errorf("%s serve ended: %s", c.program, said.String())
		case <-time.After(50 * time.Millisecond):
		}
		if res, err := c.client.Get(n.url + "/readyz"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				if c.operator == "" {
					c.operator = <-shown
				}
				return nil
			}
		}
	}
	return fmt.Errorf("%s serve is not ready after a minute", c.program)
}

// limit moves server number i into its control group.
func (c *cluster) limit(i int) (err error) {
	if c.share == 0 {
		return nil
	}
	if c.quotas[i] == nil {
		if c.quotas[i], err = newQuota(fmt.Sprint(filepath.Base(c.dir), "-", i), c.share); err != nil {
			return err
		}
	}
	return c.quotas[i].add(c.nodes[i].cmd.Process.Pid)
}

func natsAddress(i int) string { return fmt.Sprint("127.0.0.1:", 46222+i) }

// freeAddress returns an address of the loopback interface at which nothing listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// close ends the servers and deletes what they stored.
func (c *cluster) close() {
	var all sync.WaitGroup
	for i, n := range c.nodes {
		all.Go(func() {
			if n != nil {
				_ = n.cmd.Process.Kill()
				<-n.done
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

// send sends a request to a server and decodes the JSON response into out unless out is nil. It fails
// unless the status is 2xx.
func (c *cluster) send(n *node, method, path, key, kind string, body []byte, out any) error {
	req, err := http.NewRequest(method, n.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", kind)
	res, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: status %d: %.300s", method, path, res.StatusCode, b)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}

func (c *cluster) json(n *node, method, path, key string, body, out any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.send(n, method, path, key, "application/json", b, out)
}

// populate creates the tenants, and for each an agent without modules, one with a module, and one whose
// answers are slow.
func (c *cluster) populate(guest []byte) error {
	all := map[string]any{"models": []string{"*"}, "grants": []string{"*"}}
	for i := range tenants {
		id := fmt.Sprint("tenant-", i)
		create := map[string]any{"id": id, "policy": all}
		if err := c.json(c.nodes[0], "POST", "/v1/tenants", c.operator, create, nil); err != nil {
			return err
		}
		var key struct{ Secret string }
		name := map[string]any{"name": "bench"}
		if err := c.json(c.nodes[0], "POST", "/v1/tenants/"+id+"/keys", c.operator, name, &key); err != nil {
			return err
		}
		c.keys = append(c.keys, key.Secret)
		const look = "/v1/modules?name=look&version=1"
		if err := c.send(c.nodes[0], "PUT", look, key.Secret, "application/wasm", guest, nil); err != nil {
			return err
		}
		for name, text := range map[string]string{
			"plain":  "model: {name: steps}\ntools: {builtin: [calculator]}\n",
			"module": "model: {name: steps}\ntools: {builtin: [calculator]}\nmiddlewares:\n  - {module: look, config: {at: all}}\n",
			"slow":   "model: {name: slow}\n",
			"ticks":  "model: {name: ticks}\nlimits: {max_steps: 1000}\ntools: {builtin: [calculator]}\nmiddlewares:\n  - {module: look, config: {at: all}}\n",
		} {
			err := c.send(c.nodes[0], "PUT", "/v1/agents/"+name, key.Secret, "application/yaml", []byte(text), nil)
			if err != nil {
				return err
			}
		}
	}
	return c.warm()
}

// warm runs each agent of each tenant on each server, so that no measured run waits for a compiler.
func (c *cluster) warm() error {
	for _, n := range c.nodes {
		for i := range c.keys {
			for _, agent := range []string{"plain", "module"} {
				if err := c.run(n, c.keys[i], agent); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// run runs an agent on a server and reads the events of the run. It fails unless the run ends with an
// answer.
func (c *cluster) run(n *node, key, agent string) error {
	b, err := c.stream(n, "POST", "/v1/runs", key, fmt.Appendf(nil, `{"agent":%q,"input":"Do it."}`, agent))
	if err != nil {
		return err
	}
	defer b.Close()
	text, err := io.ReadAll(b)
	if err == nil && !bytes.Contains(text, []byte(`"finish_reason":"stop"`)) {
		err = fmt.Errorf("a run of %s did not finish: %.600s", agent, text[max(0, len(text)-600):])
	}
	return err
}

// stream sends a request and returns the stream of events in the response.
func (c *cluster) stream(n *node, method, path, key string, body []byte) (io.ReadCloser, error) {
	req, err := http.NewRequest(method, n.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	res, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		_ = res.Body.Close()
		return nil, fmt.Errorf("%s %s: status %d: %s", method, path, res.StatusCode, b)
	}
	return res.Body, nil
}

// databaseOf returns the name of the database in a URL.
func databaseOf(url string) string {
	name, _, _ := strings.Cut(url[strings.LastIndexByte(url, '/')+1:], "?")
	return name
}
