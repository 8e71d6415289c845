package overload

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// A gauge is one limit of the process, and a function that measures the memory that counts
// against it.
type gauge struct {
	name  string
	limit int64
	used  func() (int64, bool)
}

// A system reads limits and memory usage from the operating system.
type system struct {
	root   string // root of the file system
	limits func() (address, data uint64)
}

// gauges returns a gauge for each limit of the process: the operator's, those of its
// cgroups, its resource limits, and the machine's memory.
func (s *system) gauges(operators int64) []gauge {
	var out []gauge
	add := func(name string, limit int64, used func() (int64, bool)) {
		if limit > 0 && limit < 1<<60 { // larger values of cgroup v1 and rlimits mean no limit
			out = append(out, gauge{name, limit, used})
		}
	}
	add("--memory-limit", operators, s.resident)
	for _, g := range s.cgroups() {
		add(g.name, g.limit, g.used)
	}
	if s.limits != nil {
		address, data := s.limits()
		add("RLIMIT_AS", int64(min(address, 1<<62)), s.resident)
		add("RLIMIT_DATA", int64(min(data, 1<<62)), s.resident)
	}
	total, _ := s.field("/proc/meminfo", "MemTotal:")
	add("the machine's memory", total<<10, s.resident)
	return out
}

// resident returns the process's resident memory in bytes, and whether it is known.
func (s *system) resident() (int64, bool) {
	b, err := s.read("/proc/self/statm")
	f := bytes.Fields(b)
	if err != nil || len(f) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(string(f[1]), 10, 40)
	return pages * int64(os.Getpagesize()), err == nil
}

// cgroups returns the memory limits of the process's cgroups of version 1 and 2.
func (s *system) cgroups() (out []gauge) {
	b, err := s.read("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch controllers := "," + f[1] + ","; {
		case f[1] == "":
			out = append(out, s.tree("cgroup v2", "/sys/fs/cgroup", f[2], "memory.max", "memory.current", "inactive_file")...)
		case strings.Contains(controllers, ",memory,"):
			out = append(
				out,
				s.tree(
					"cgroup v1",
					"/sys/fs/cgroup/memory",
					f[2],
					"memory.limit_in_bytes",
					"memory.usage_in_bytes",
					"total_inactive_file",
				)...)
		}
	}
	return out
}

// tree returns the limits of a cgroup and of its ancestors. In a container the cgroup's path may
// not exist; the cgroup's files are then at the root of the mount.
func (s *system) tree(name, mount, of, limitFile, usedFile, cache string) (out []gauge) {
	for dir := path.Clean("/" + of); ; dir = path.Dir(dir) {
		at := path.Join(mount, dir)
		if limit, ok := s.number(path.Join(at, limitFile)); ok {
			out = append(out, gauge{name, limit, func() (int64, bool) {
				used, ok := s.number(path.Join(at, usedFile))
				reclaimable, _ := s.field(path.Join(at, "memory.stat"), cache)
				return max(0, used-reclaimable), ok
			}})
		}
		if dir == "/" {
			return out
		}
	}
}

// Cgroup returns the name of this process's memory cgroup, and the number of its processes that the
// kernel's OOM killer has killed. It returns "" and 0 if these are unknown.
func Cgroup() (name string, oomKills int64) { return here().cgroup() }

func (s *system) cgroup() (name string, oomKills int64) {
	b, err := s.read("/proc/self/cgroup")
	if err != nil {
		return "", 0
	}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		mount, file := "/sys/fs/cgroup", "memory.events"
		if strings.Contains(","+f[1]+",", ",memory,") {
			mount, file = "/sys/fs/cgroup/memory", "memory.oom_control"
		} else if f[1] != "" {
			continue
		}
		// In a container the cgroup's path may not exist.
		for _, dir := range []string{path.Join(mount, f[2]), mount} {
			if n, ok := s.field(path.Join(dir, file), "oom_kill"); ok {
				return f[2], n
			}
		}
	}
	return "", 0
}

func (s *system) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.root, filepath.FromSlash(name)))
}

// number returns the number that the file called name consists of, and whether it is one.
func (s *system) number(name string) (int64, bool) {
	b, err := s.read(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	return n, err == nil
}

// field returns the number that follows word in a file's first line that begins with word, and
// whether there is one.
func (s *system) field(name, word string) (int64, bool) {
	b, err := s.read(name)
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(b) {
		if f := bytes.Fields(line); len(f) >= 2 && string(f[0]) == word {
			n, err := strconv.ParseInt(string(f[1]), 10, 50)
			return n, err == nil
		}
	}
	return 0, false
}
