package budget

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSlots(t *testing.T) {
	s := NewSlots(4, true)
	free, err := s.Take("ann")
	require.NoError(t, err)
	_, err = s.Take("ann")
	require.NoError(t, err)
	_, err = s.Take("ann")
	require.EqualError(t, err, "2 of the key ann are in progress, the limit of one key")
	free()
	for _, key := range []string{"ann", "bob", "bob"} {
		_, err = s.Take(key)
		require.NoError(t, err, key)
	}
	_, err = s.Take("eve")
	require.EqualError(t, err, "4 are in progress, the limit")

	alone := NewSlots(2, false)
	for range 2 {
		free, err = alone.Take("")
		require.NoError(t, err)
	}
	_, err = alone.Take("")
	require.EqualError(t, err, "2 are in progress, the limit")
	free()
	require.Equal(t, map[string]int{"": 1}, alone.of)
	_, err = NewSlots(1, true).Take("ann")
	require.NoError(t, err, "a single slot is not divided")
}
