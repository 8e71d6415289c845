package sandbox

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
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
	image, err := mapImage(content)
	require.NoError(t, err)
	defer image.close()
	for name, reset := range map[string]func(p *mappedPages) (int64, bool){
		"stretches": (*mappedPages).resetStretches,
		"entries":   (*mappedPages).resetEntries,
	} {
		t.Run(name, func(t *testing.T) {
			if name == "stretches" && !scans() {
				t.Skip("this kernel has no stretches")
			}
			opened, err := image.open(2 * size)
			require.NoError(t, err)
			p := opened.(*mappedPages)
			defer p.free()
			b := p.resize(size)
			random := rand.New(rand.NewPCG(1, 2))
			wrote := map[int]bool{}
			for range 4 {
				for range 150 { // more than one call finds
					at := random.IntN(size)
					b[at]++
					wrote[at/osPage] = true
				}
				for range 50 {
					_ = b[random.IntN(size)] // present, and nobody's own
				}
				own, ok := reset(p)
				require.True(t, ok)
				require.Equal(t, int64(len(wrote)*osPage), own)
				require.Equal(t, content, b)
			}
		})
	}
}
