package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// period is the period of processor quotas. It is short, so that a process with a small quota does not
// stop for long.
const period = 20 * time.Millisecond

// A quota is a control group whose processes together use at most a part of a processor.
type quota struct {
	dir string
	v2  bool
}

// newQuota creates a control group. It needs root.
func newQuota(name string, processors float64) (*quota, error) {
	name = fmt.Sprintf("agent-runner-bench-%d-%s", os.Getpid(), name)
	q := &quota{dir: filepath.Join("/sys/fs/cgroup/cpu", name)}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		q = &quota{dir: filepath.Join("/sys/fs/cgroup", name), v2: true}
		_ = os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+cpu"), 0)
	}
	if err := os.Mkdir(q.dir, 0o755); err != nil {
		return nil, fmt.Errorf("processor quotas need root and the cgroup controller cpu: %w", err)
	}
	us, of := int64(float64(period.Microseconds())*processors), period.Microseconds()
	if q.v2 {
		return q, q.write("cpu.max", fmt.Sprint(us, " ", of))
	}
	return q, errors.Join(q.write("cpu.cfs_period_us", fmt.Sprint(of)), q.write("cpu.cfs_quota_us", fmt.Sprint(us)))
}

func (q *quota) write(file, text string) error {
	return os.WriteFile(filepath.Join(q.dir, file), []byte(text), 0)
}

// add moves a process into the group. Its later children belong to the group, too.
func (q *quota) add(pid int) error { return q.write("cgroup.procs", strconv.Itoa(pid)) }

// above returns the group that contains the group.
func (q *quota) above() *quota { return &quota{dir: filepath.Dir(q.dir), v2: q.v2} }

// remove removes the group, whose processes must have ended.
func (q *quota) remove() { _ = os.Remove(q.dir) }
