package sandbox

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

// Both ways in which the kernel tells of pages find the same ones, however many
// stretches they make.
func TestOwnPages(t *testing.T) {
	t.Parallel()
	if !canMap() {
		t.Skip("this kernel does not tell what was written to")
	}
	const size = 64 * pageBytes
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i / 1000)
	}
	gap := content[20*pageBytes : 40*pageBytes] // of which an image maps nothing
	clear(gap)
	image, err := mapImage(content)
	require.NoError(t, err)
	defer image.close()
	for name, written := range map[string]func(*mappedPages, uint64, func(from, to uint64)) bool{
		"stretches": (*mappedPages).writtenRegions,
		"entries":   (*mappedPages).writtenEntries,
	} {
		t.Run(name, func(t *testing.T) {
			if name == "stretches" && !scans() {
				t.Skip("this kernel has no stretches")
			}
			opened, err := image.open(size, 2*size)
			require.NoError(t, err)
			p := opened.(*mappedPages)
			defer p.free()
			b := p.resize(size)
			random := rand.New(rand.NewPCG(1, 2))
			wrote, onlyRead := map[int]bool{}, 0
			if name == "entries" { // which do not tell what was only read in a gap
				onlyRead = len(gap) / osPage
			}
			for range 4 {
				for range 150 { // more than one call finds
					at := random.IntN(size)
					b[at]++
					wrote[at/osPage] = true
				}
				for range 50 {
					_ = b[random.IntN(size)] // present, and nobody's own
				}
				own := 0
				require.True(t, written(p, size, func(from, to uint64) {
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

// The kernel is told where to write what it finds, which must not lie on a stack that
// moves meanwhile: whoever has it next would find that in it.
func TestOwnPagesWhileTheStackGrows(t *testing.T) {
	t.Parallel()
	if !canMap() || !scans() {
		t.Skip("this kernel has no stretches")
	}
	image, err := mapImage(make([]byte, pageBytes))
	require.NoError(t, err)
	defer image.close()
	p, err := image.open(pageBytes, pageBytes)
	require.NoError(t, err)
	defer p.free()
	b := p.resize(pageBytes)
	for depth := range 1000 { // the stack grows somewhere else each time
		own := make(chan int64)
		go func() { own <- below(depth, func() int64 { b[osPage] = 1; return p.reset() }) }()
		require.EqualValues(t, osPage, <-own)
		require.Zero(t, b[osPage])
	}
}

// below calls do under so many frames.
//
//go:noinline
func below(frames int, do func() int64) int64 {
	if frames == 0 {
		return do()
	}
	return below(frames-1, do)
}

// What instances write where an image is zeros takes none of the image's memory,
// which is counted once, when it is made.
func TestImageDoesNotGrow(t *testing.T) {
	t.Parallel()
	if !canMap() {
		t.Skip("this kernel does not tell what was written to")
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

func TestGaps(t *testing.T) {
	t.Parallel()
	const kb = 1 << 10
	for name, test := range map[string]struct {
		data []stretch // of a megabyte, that is not zero
		want []stretch
	}{
		"nothing":                {nil, nil},
		"all":                    {[]stretch{{0, 1024}}, []stretch{{0, 1024}}},
		"gap at the end":         {[]stretch{{0, 100}}, []stretch{{0, 100}}},
		"gap at the beginning":   {[]stretch{{512, 1024}}, []stretch{{512, 1024}}},
		"short gaps":             {[]stretch{{0, 4}, {256, 260}, {512, 516}, {768, 772}, {1020, 1024}}, []stretch{{0, 1024}}},
		"gaps as long as needed": {[]stretch{{0, 4}, {260, 264}, {520, 1024}}, []stretch{{0, 4}, {260, 264}, {520, 1024}}},
		"a byte of a page":       {[]stretch{{301, 302}}, []stretch{{300, 304}}},
	} {
		b := make([]byte, 1024*kb)
		for _, s := range test.data {
			for i := s.from * kb; i < s.to*kb; i++ {
				b[i] = 1
			}
		}
		var want []stretch
		for _, s := range test.want {
			want = append(want, stretch{s.from * kb, s.to * kb})
		}
		require.Equal(t, want, withoutGaps(b), name)
	}
	// The longest ones are left out, and no more of them than that.
	b := make([]byte, 4096*kb)
	for i := range 7 {
		b[i*(300+10*i)*kb] = 1
	}
	require.Len(t, withoutGaps(b), mostGaps)
}

// A process that has no mapping left can have no memory either: no instance takes the
// last ones. It is not parallel to others, whose mappings would be missing.
func TestMappingsAreCounted(t *testing.T) {
	if !canMap() {
		t.Skip("this system maps no images")
	}
	im := load(t, newSandbox(t, Options{}), large(nil), Limits{})
	before := mappings.Load()
	in := instantiate(t, im, InstanceConfig{})
	one := mappings.Load() - before
	require.Positive(t, one)

	rest := maxMappings()/8*7 - mappings.Load()
	mappings.Add(rest)
	defer func() { mappings.Add(-rest) }()
	_, err := im.Instantiate(t.Context(), InstanceConfig{})
	require.ErrorIs(t, err, errMappings)
	require.ErrorContains(t, err, "raise vm.max_map_count")
	in.Close()
	require.Zero(t, im.pool.count(), "none is kept while there are so many")
	instantiate(t, im, InstanceConfig{}).Close()
}

// An image with as many gaps as there may be, whose pages have grown, and may grow more.
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
