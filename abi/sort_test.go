package abi

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSortTexts(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		list := make([]string, n)
		for i := range list {
			list[i] = strconv.Itoa(random.IntN(n))
		}
		want := slices.Sorted(slices.Values(list))
		sortTexts(list)
		require.Equal(t, want, append([]string(nil), list...))
	}
}
