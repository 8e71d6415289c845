package image

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// eachWholeImage runs test with a mapped and with a copied image of content.
func eachWholeImage(t *testing.T, content []byte, test func(t *testing.T, base *Snapshot, portable bool)) {
	for name, portable := range map[string]bool{"mapped": false, "copied": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, err := newWholeImage(content, portable)
			require.NoError(t, err)
			base := snapshotOf(whole)
			defer base.Release()
			test(t, base, portable)
		})
	}
}

// TestDifferenceStoresChanges checks that a difference stores only the bytes that differ,
// and that a difference from a difference refers to the same whole image.
func TestDifferenceStoresChanges(t *testing.T) {
	t.Parallel()
	content := make([]byte, 2*MaxCopied)
	eachWholeImage(t, content, func(t *testing.T, base *Snapshot, portable bool) {
		b := append([]byte(nil), content...)
		b[0] = 50
		d := newDifference(base, entireMemory, b, portable)
		require.NotNil(t, d)
		require.Equal(t, []Place{{0, differenceUnit}}, d.places)
		require.EqualValues(t, 50, d.content[0])
		require.Less(t, d.bytes(), int64(100))

		first := snapshotOf(d)
		defer first.Release()
		b[70] = 7
		second := newDifference(first, entireMemory, b, portable)
		require.Same(t, d.whole, second.whole)
		require.Len(t, second.places, 2)
		second.close()
	})
}

// TestDifferenceIsBounded checks that newDifference returns nil for an image that differs in more
// than maxDifferentPages pages.
func TestDifferenceIsBounded(t *testing.T) {
	t.Parallel()
	content := make([]byte, 4*MaxCopied)
	eachWholeImage(t, content, func(t *testing.T, base *Snapshot, portable bool) {
		for n, want := range map[int]bool{
			0: true, maxDifferentPages * differencePage: true, maxDifferentPages*differencePage + 1: false, len(content): false,
		} {
			b := append([]byte(nil), content...)
			for i := range n {
				b[i] = 1
			}
			d := newDifference(base, entireMemory, b, portable)
			require.Equal(t, want, d != nil, "%d bytes", n)
			if d != nil {
				d.close()
			}
		}
	})
}

// TestDifferenceIsNotShorter checks that newDifference returns nil for an image that is shorter
// than its base, but not for one that is as long or longer.
func TestDifferenceIsNotShorter(t *testing.T) {
	t.Parallel()
	content := make([]byte, 2*MaxCopied)
	eachWholeImage(t, content, func(t *testing.T, base *Snapshot, portable bool) {
		d := newDifference(base, entireMemory, content, portable)
		require.NotNil(t, d)
		d.close()
		require.Nil(t, newDifference(base, entireMemory, content[:len(content)-pageBytes], portable))
		grown := newDifference(base, entireMemory, append(content, make([]byte, pageBytes)...), portable)
		require.NotNil(t, grown)
		grown.close()
	})
}
