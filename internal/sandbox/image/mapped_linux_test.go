package image

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestChangedPages checks that both interfaces of the kernel find the pages that were written to,
// even if these form more ranges than one call returns.
func TestChangedPages(t *testing.T) {
	t.Parallel()
	if !CanMap() {
		t.Skip("this kernel does not report which pages were written to")
	}
	const size = 64 * pageBytes
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i / 1000)
	}
	gap := content[20*pageBytes : 40*pageBytes] // an image does not map this range
	clear(gap)
	image, err := mapImage(content)
	require.NoError(t, err)
	defer image.close()
	for name, changed := range map[string]func(*mappedPages, uint64, func(from, to uint64)) bool{
		"regions": (*mappedPages).changedRegions,
		"entries": (*mappedPages).changedEntries,
	} {
		t.Run(name, func(t *testing.T) {
			if name == "regions" && !canScan() {
				t.Skip("this kernel has no PAGEMAP_SCAN")
			}
			opened, err := image.open(size, 2*size)
			require.NoError(t, err)
			p := opened.(*mappedPages)
			defer p.free()
			b := p.resize(size)
			random := rand.New(rand.NewPCG(1, 2))
			wrote, onlyRead := map[int]bool{}, 0
			if name == "entries" { // entries do not show whether a page in a gap was only read
				onlyRead = len(gap) / osPage
			}
			for range 4 {
				for range 150 { // more than one call returns
					at := random.IntN(size)
					b[at]++
					wrote[at/osPage] = true
				}
				for range 50 {
					_ = b[random.IntN(size)] // present, but shared
				}
				own := 0
				require.True(t, changed(p, size, func(from, to uint64) {
					own += int(to - from)
					restore(b[from:to], content, from)
				}))
				require.GreaterOrEqual(t, own, len(wrote)*osPage)
				require.LessOrEqual(t, own, (len(wrote)+onlyRead)*osPage)
				require.Equal(t, content, b)
			}
		})
	}
}

// TestScanWhileStackGrows checks that a reset is correct while the goroutine's stack grows. If the
// buffer for the kernel's output were on a stack that moved during the call, the kernel would
// overwrite memory of its next owner.
func TestScanWhileStackGrows(t *testing.T) {
	t.Parallel()
	if !CanMap() || !canScan() {
		t.Skip("this kernel has no PAGEMAP_SCAN")
	}
	image, err := mapImage(make([]byte, pageBytes))
	require.NoError(t, err)
	defer image.close()
	p, err := image.open(pageBytes, pageBytes)
	require.NoError(t, err)
	defer p.free()
	b := p.resize(pageBytes)
	for depth := range 1000 { // the stack grows at a different place each time
		own := make(chan int64)
		go func() { own <- below(depth, func() int64 { b[osPage] = 1; return p.reset() }) }()
		require.EqualValues(t, osPage, <-own)
		require.Zero(t, b[osPage])
	}
}

// below calls itself the given number of times, then calls do, and returns its result.
//
//go:noinline
func below(frames int, do func() int64) int64 {
	if frames == 0 {
		return do()
	}
	return below(frames-1, do)
}

// TestImageDoesNotGrow checks that writes to the gaps of an image do not allocate memory in
// its file, because the file is accounted for only once, when it is made.
func TestImageDoesNotGrow(t *testing.T) {
	t.Parallel()
	if !CanMap() {
		t.Skip("this kernel does not report which pages were written to")
	}
	content := make([]byte, 64*pageBytes)
	content[10*pageBytes], content[11*pageBytes+7] = 1, 1
	made, err := mapImage(content)
	require.NoError(t, err)
	defer made.close()
	require.EqualValues(t, pageBytes+osPage, made.bytes())
	opened, err := made.open(uint64(len(content)), uint64(len(content)))
	require.NoError(t, err)
	defer opened.free()
	b := opened.resize(uint64(len(content)))
	for at := 0; at < len(b); at += osPage {
		b[at] = 0xff
	}
	var file unix.Stat_t
	require.NoError(t, unix.Fstat(made.(*mappedImage).fd, &file))
	require.LessOrEqual(t, file.Blocks*512, made.bytes())
	require.EqualValues(t, len(b), opened.reset())
	require.Equal(t, content, b)
}

func TestWithoutGaps(t *testing.T) {
	t.Parallel()
	const kb = 1 << 10
	for name, test := range map[string]struct {
		data []byteRange // nonzero KiB of a MiB
		want []byteRange
	}{
		"zeros":                  {nil, nil},
		"no zeros":               {[]byteRange{{0, 1024}}, []byteRange{{0, 1024}}},
		"gap at the end":         {[]byteRange{{0, 100}}, []byteRange{{0, 100}}},
		"gap at the beginning":   {[]byteRange{{512, 1024}}, []byteRange{{512, 1024}}},
		"short gaps":             {[]byteRange{{0, 4}, {256, 260}, {512, 516}, {768, 772}, {1020, 1024}}, []byteRange{{0, 1024}}},
		"gaps as long as needed": {[]byteRange{{0, 4}, {260, 264}, {520, 1024}}, []byteRange{{0, 4}, {260, 264}, {520, 1024}}},
		"one byte of a page":     {[]byteRange{{301, 302}}, []byteRange{{300, 304}}},
	} {
		b := make([]byte, 1024*kb)
		for _, s := range test.data {
			for i := s.from * kb; i < s.to*kb; i++ {
				b[i] = 1
			}
		}
		var want []byteRange
		for _, s := range test.want {
			want = append(want, byteRange{s.from * kb, s.to * kb})
		}
		require.Equal(t, want, withoutGaps(b), name)
	}
	// An image has at most maxGaps gaps.
	b := make([]byte, 4096*kb)
	for i := range 7 {
		b[i*(300+10*i)*kb] = 1
	}
	require.Len(t, withoutGaps(b), maxGaps)
}

// TestMappingsAreBounded checks that pages do not use the last mappings of the process. It
// does not run in parallel with tests that need mappings.
func TestMappingsAreBounded(t *testing.T) {
	if !CanMap() {
		t.Skip("this system maps no images")
	}
	require.False(t, Crowded())
	rest := maxMappings()/8*7 - mappings.Load()
	mappings.Add(rest)
	require.True(t, Crowded())
	_, err := mapPages(pageBytes)
	require.ErrorIs(t, err, errMappings)
	require.ErrorContains(t, err, "raise vm.max_map_count")
	mappings.Add(-rest)
	before := mappings.Load()
	p, err := mapPages(pageBytes)
	require.NoError(t, err)
	require.Equal(t, before+emptyMappings, mappings.Load())
	p.free()
	require.Equal(t, before, mappings.Load())
}

// TestMappings checks that the counted mappings are those in /proc/self/maps, for pages
// that have grown and can grow further, of an image with the maximum number of gaps.
func TestMappings(t *testing.T) {
	t.Parallel()
	b := make([]byte, 4<<20)
	for _, at := range []int{0, 1 << 20, 2 << 20, 3 << 20} {
		b[at] = 1
	}
	image, err := mapImage(b)
	require.NoError(t, err)
	defer image.close()
	p, err := image.open(5<<20, 8<<20)
	require.NoError(t, err)
	defer p.free()
	require.NotNil(t, p.resize(6<<20))
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	space := p.(*mappedPages).space
	begin, n := uintptr(unsafe.Pointer(&space[0])), 0
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		_, err := fmt.Sscanf(line, "%x-%x", &from, &to)
		require.NoError(t, err)
		if from < begin+uintptr(len(space)) && begin < to {
			n++
		}
	}
	require.EqualValues(t, p.(*mappedPages).counted, n)
}
