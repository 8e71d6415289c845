package exhaust

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A cgroup caps the memory of the processes in it.
type cgroup struct {
	dir   string
	procs string // path of the file that lists the processes
}

// A CgroupError reports that this process cannot limit the memory of another one.
type CgroupError struct{ Err error }

// Error returns the cause and the requirement.
func (e *CgroupError) Error() string {
	return "limit the server's memory: needs a cgroup that this user may write: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *CgroupError) Unwrap() error { return e.Err }

// newCgroup creates a cgroup below this process's own with a memory limit, in version 2 or 1 of the
// interface. The error is a [*CgroupError] if this user cannot create one, or if no cgroup limits
// memory.
func newCgroup(name string, limit int64) (*cgroup, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, &CgroupError{err}
	}
	var failed error
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		var root string
		var files []string
		switch parts[1] {
		case "memory":
			root, files = "/sys/fs/cgroup/memory", []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
		case "":
			root, files = "/sys/fs/cgroup", []string{"memory.max", "memory.swap.max"}
		default:
			continue
		}
		c, err := limited(filepath.Join(root, parts[2]), name, files, limit)
		if err == nil {
			return c, nil
		}
		// In a container the path may be that of a group on the machine. In that case, the root is
		// this process's group.
		if c, err = limited(root, name, files, limit); err == nil {
			return c, nil
		}
		failed = err
	}
	if failed == nil {
		failed = errors.New("this process is in no cgroup that limits memory")
	}
	return nil, &CgroupError{failed}
}

// limited creates a cgroup below parent and writes the limit to its files. The second file is optional.
func limited(parent, name string, files []string, limit int64) (*cgroup, error) {
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	c := &cgroup{dir, filepath.Join(dir, "cgroup.procs")}
	if err := os.WriteFile(filepath.Join(dir, files[0]), []byte(strconv.FormatInt(limit, 10)), 0o644); err != nil {
		c.remove()
		return nil, err
	}
	_ = os.WriteFile(
		filepath.Join(dir, files[1]),
		[]byte(strconv.FormatInt(limit, 10)),
		0o644,
	) // without swap accounting there is no such file
	return c, nil
}

// remove deletes the cgroup. Its processes must have exited.
func (c *cgroup) remove() { _ = os.Remove(c.dir) }
