package image

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// mappings is the number of memory mappings of all open pages. mapCounted bounds it, so
// that the process has mappings left for other purposes.
var mappings atomic.Int64

// emptyMappings is the number of mappings of pages without an image: the usable bytes and
// the addresses reserved for growth.
const emptyMappings = 2

// maxMappings is the number of mappings that this process may have. A process without a
// free one can allocate no memory either, and crashes. See max_map_count in
// https://docs.kernel.org/admin-guide/sysctl/vm.html.
var maxMappings = sync.OnceValue(func() int64 {
	const linuxDefault = 65_530
	b, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		return linuxDefault
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || n <= 0 {
		return linuxDefault
	}
	return n
})

// Crowded reports whether memories use more than three quarters of the mappings that this
// process may have, so that unused memories should be closed.
func Crowded() bool { return mappings.Load() > maxMappings()/4*3 }

// errMappings reports that memories use seven eighths of the process's mappings.
var errMappings = errors.New(
	"sandbox: instances use all memory mappings that the system allows this process; run fewer concurrently, or raise vm.max_map_count",
)

// mapPages returns empty pages.
func mapPages(limit uint64) (*mappedPages, error) { return mapCounted(limit, emptyMappings) }

// mapCounted returns empty pages that will have count mappings.
func mapCounted(limit uint64, count int64) (p *mappedPages, err error) {
	if mappings.Add(count) > maxMappings()/8*7 {
		err = errMappings
	} else if p, err = reservePages(limit); err == nil {
		p.counted = count
		return p, nil
	}
	mappings.Add(-count)
	return nil, err
}
