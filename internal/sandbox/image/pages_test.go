package image

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// FuzzPages checks that reset restores each byte of an image, whatever was written, and
// that memories of one image are independent of each other.
func FuzzPages(f *testing.F) {
	f.Add(uint64(1), uint16(10))
	f.Fuzz(func(t *testing.T, seed uint64, writes uint16) {
		random := rand.New(rand.NewPCG(seed, 0))
		content := make([]byte, (1+random.IntN(20))*pageBytes)
		for range random.IntN(40) {
			content[random.IntN(len(content))] = byte(random.Uint32())
		}
		for _, image := range images(t, content) {
			a, err := image.open(uint64(len(content)), uint64(len(content))+2*pageBytes)
			require.NoError(t, err)
			b, err := image.open(uint64(len(content)), uint64(len(content)))
			require.NoError(t, err)
			mine, other := a.resize(uint64(len(content))), b.resize(uint64(len(content)))
			for range 2 {
				require.True(t, bytes.Equal(content, mine))
				for range writes {
					at := random.IntN(len(mine))
					n := min(random.IntN(10_000), len(mine)-at)
					for i := range n {
						mine[at+i] ^= byte(i)
					}
				}
				a.reset()
			}
			require.True(t, bytes.Equal(content, mine))
			require.True(t, bytes.Equal(content, other))
			require.Nil(t, b.resize(uint64(len(content))+pageBytes))
			for range 2 {
				mine = a.resize(uint64(len(mine)) + pageBytes)
				require.True(t, bytes.Equal(content, mine[:len(content)]), "growing preserves the content")
				require.Equal(t, make([]byte, pageBytes), mine[len(mine)-pageBytes:])
			}
			require.Nil(t, a.resize(uint64(len(mine))+pageBytes))
			a.free()
			b.free()
			image.close()
		}
	})
}

// images returns images of every kind with this content.
func images(t *testing.T, content []byte) []pageImage {
	var all []pageImage
	for _, whole := range wholeImages(t, content) {
		all = append(all, whole)
	}
	// Add differences from other images, which may be shorter.
	random := rand.New(rand.NewPCG(uint64(len(content)), 1))
	other := bytes.Clone(content[:(1+random.IntN(len(content)/pageBytes))*pageBytes])
	for range random.IntN(40) {
		copy(other[random.IntN(len(other)):], "something else")
	}
	for _, whole := range wholeImages(t, other) {
		base := snapshotOf(whole)
		p, err := whole.open(whole.size(), uint64(len(content))+2*pageBytes)
		require.NoError(t, err)
		copy(p.resize(uint64(len(content))), content)
		if d := newDifference(base, p.changed, content, isPortable(whole)); d != nil {
			all = append(all, d)
		}
		p.free()
		base.Release()
	}
	return all
}

// snapshotOf returns a snapshot with one reference.
func snapshotOf(image pageImage) *Snapshot {
	s := &Snapshot{image: image}
	s.Retain()
	return s
}

// isPortable reports whether an image was made for systems that cannot map images.
func isPortable(i wholeImage) bool {
	c, ok := i.(*copiedImage)
	return ok && c.portable
}

// wholeImages returns a whole image of every kind.
func wholeImages(t *testing.T, content []byte) []wholeImage {
	copied, err := newWholeImage(content, true)
	require.NoError(t, err)
	if !CanMap() {
		return []wholeImage{copied}
	}
	mapped, err := mapImage(content)
	require.NoError(t, err)
	return []wholeImage{copied, &copiedImage{content: content}, mapped}
}
