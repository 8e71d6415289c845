package overload

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// managed returns a manager with a limit of 1,000 bytes that reads its memory usage from used.
func managed(used *int64, o Options) *Manager {
	m := New(o)
	m.gauges = []gauge{{"test", 1000, func() (int64, bool) { return *used, true }}}
	m.free = func() {}
	return m
}

func TestWatermarks(t *testing.T) {
	used, released := int64(0), 0
	m := managed(&used, Options{Release: func() { released++ }})
	now := time.Now()
	for _, c := range []struct {
		used      int64
		rejecting bool
		evicting  bool
	}{
		{500, false, false}, {849, false, false}, {850, true, false}, {820, true, false}, {801, true, false},
		{800, false, false}, {840, false, false}, {950, true, true}, {949, true, false}, {1200, true, true},
		{0, false, false},
	} {
		used = c.used
		now = now.Add(measureInterval)
		m.step(now)
		s := m.State()
		require.Equal(t, c.rejecting, s.Rejecting, "%d", c.used)
		require.Equal(t, c.evicting, s.Evicting, "%d", c.used)
		require.Equal(t, !c.rejecting, m.Accept(), "%d", c.used)
		require.Equal(t, float64(c.used)/1000, s.Pressure)
	}
	require.Equal(t, 2, released, "once each time that the watermark is passed")
	require.EqualValues(t, 6, m.State().Rejected)
	require.True(t, (*Manager)(nil).Accept())
}

// TestEvictsOneByOne checks that Evict is called once per evictInterval until the pressure falls
// below EvictAt, and that only calls that ended work are counted.
func TestEvictsOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := []int64{400, 300, 200, 90}
		used := int64(0)
		var ended []int64
		m := managed(&used, Options{Evict: func(State) bool {
			if len(runs) == 0 {
				return false
			}
			ended, runs = append(ended, runs[0]), runs[1:]
			return true
		}})
		ctx := t.Context()
		used = 990
		go m.Watch(ctx)
		time.Sleep(evictInterval - time.Millisecond)
		require.Equal(t, []int64{400}, ended, "its memory has time to return")
		time.Sleep(evictInterval)
		require.Equal(t, []int64{400, 300}, ended)
		used = 290
		time.Sleep(time.Minute)
		require.Equal(t, []int64{400, 300}, ended)
		require.EqualValues(t, 2, m.State().Evicted)
		used = 999
		time.Sleep(time.Minute)
		require.Len(t, ended, 4)
		require.EqualValues(t, 4, m.State().Evicted, "what finds nothing counts nothing")
	})
}

// TestCollectsBeforeItEvicts checks that no work is ended if a collection frees enough memory, and
// that collections are at least freeInterval apart.
func TestCollectsBeforeItEvicts(t *testing.T) {
	used, evicted, freed := int64(980), 0, 0
	m := managed(&used, Options{Evict: func(State) bool { evicted++; return true }})
	m.free = func() { freed++; used = 300 }
	now := time.Now()
	m.step(now)
	require.Equal(t, 1, freed)
	require.Zero(t, evicted)
	m.free = func() { freed++ }
	used = 980
	m.step(now.Add(freeInterval / 2))
	require.Equal(t, 1, freed, "sparingly")
	require.Equal(t, 1, evicted)
}

func TestGoLimit(t *testing.T) {
	require.EqualValues(t, 2400<<20, goLimit(3000<<20, -1))
	require.EqualValues(t, 1400<<20, goLimit(3000<<20, 1000<<20))
	require.EqualValues(t, minHeap, goLimit(3000<<20, 2900<<20))
}

// TestLimits checks the limits and the highest pressure that are computed from the operator's
// limit, cgroups of both versions, resource limits and the machine's memory.
func TestLimits(t *testing.T) {
	const gib = 1 << 30
	type files map[string]string
	statm, meminfo := "1000 500 10", "MemTotal:       8388608 kB\nMemFree: 1 kB\n"
	for name, c := range map[string]struct {
		files     files
		operators int64
		rlimits   [2]uint64
		want      map[string]int64
		pressure  float64 // highest pressure of a limit
	}{
		"machine": {files{"proc/meminfo": meminfo}, 0, [2]uint64{1<<64 - 1, 1<<64 - 1}, map[string]int64{"the machine's memory": 8 * gib}, 500 * 4096.0 / (8 * gib)},
		"flag":    {files{"proc/meminfo": meminfo}, gib, [2]uint64{1<<64 - 1, 1<<64 - 1}, map[string]int64{"--memory-limit": gib, "the machine's memory": 8 * gib}, 500 * 4096.0 / gib},
		"rlimits": {nil, 0, [2]uint64{4 * gib, 2 * gib}, map[string]int64{"RLIMIT_AS": 4 * gib, "RLIMIT_DATA": 2 * gib}, 500 * 4096.0 / (2 * gib)},
		"cgroup v2, up the tree": {files{
			"proc/self/cgroup":                 "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max":     "max\n",
			"sys/fs/cgroup/a/b/memory.current": "5\n",
			"sys/fs/cgroup/a/memory.max":       "1073741824\n",
			"sys/fs/cgroup/a/memory.current":   "1073741824\n",
			"sys/fs/cgroup/a/memory.stat":      "anon 1\ninactive_file 536870912\n",
		},
			0, [2]uint64{1<<64 - 1, 1<<64 - 1}, map[string]int64{"cgroup v2": gib}, 0.5},
		"cgroup v2, in a container": {files{
			"proc/self/cgroup":             "0::/../x\n",
			"sys/fs/cgroup/memory.max":     "1073741824\n",
			"sys/fs/cgroup/memory.current": "268435456\n",
		},
			0, [2]uint64{1<<64 - 1, 1<<64 - 1}, map[string]int64{"cgroup v2": gib}, 0.25},
		"cgroup v1": {files{"proc/self/cgroup": "3:cpu,cpuacct:/x\n2:memory:/x\n", "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1073741824\n",
			"sys/fs/cgroup/memory/x/memory.usage_in_bytes": "1073741824\n", "sys/fs/cgroup/memory/x/memory.stat": "total_inactive_file 268435456\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0, [2]uint64{1<<64 - 1, 1<<64 - 1}, map[string]int64{"cgroup v1": gib}, 0.75},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
			}
			write("proc/self/statm", statm)
			for name, text := range c.files {
				write(name, text)
			}
			s := &system{root: dir, limits: func() (uint64, uint64) { return c.rlimits[0], c.rlimits[1] }}
			got, pressure := map[string]int64{}, 0.0
			for _, g := range s.gauges(c.operators) {
				used, ok := g.used()
				require.True(t, ok)
				got[g.name], pressure = g.limit, max(pressure, float64(used)/float64(g.limit))
			}
			require.Equal(t, c.want, got)
			require.InDelta(t, c.pressure, pressure, 1e-9)
		})
	}
}

func TestCgroup(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		group string
		kills int64
	}{
		"none": {files: map[string]string{}},
		"v2": {
			map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.events": "low 0\noom 7\noom_kill 3\n"},
			"/a",
			3,
		},
		"v2 container": {
			map[string]string{"proc/self/cgroup": "0::/b\n", "sys/fs/cgroup/memory.events": "oom_kill 4\n"}, "/b", 4,
		},
		"v1": {map[string]string{"proc/self/cgroup": "5:cpu:/x\n4:memory:/c\n0::/\n", "sys/fs/cgroup/memory/c/memory.oom_control": "under_oom 0\noom_kill 5\n"}, "/c", 5},
	} {
		t.Run(name, func(t *testing.T) {
			s := &system{root: t.TempDir()}
			for name, text := range c.files {
				require.NoError(t, os.MkdirAll(filepath.Join(s.root, filepath.Dir(name)), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(s.root, name), []byte(text), 0o644))
			}
			group, kills := s.cgroup()
			require.Equal(t, c.group, group)
			require.Equal(t, c.kills, kills)
		})
	}
}

func TestMeasuresThisProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/statm"); err != nil {
		t.Skip("no /proc")
	}
	require.Positive(t, Limit(0))
	require.EqualValues(t, 1<<20, Limit(1<<20))
	m := New(Options{Memory: 1 << 20})
	m.step(time.Now())
	require.True(t, m.State().Evicting)
	require.Equal(t, "--memory-limit", m.State().Limited)
}
