package client_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/client"
)

func TestCollect(t *testing.T) {
	t.Parallel()
	const n, maxPage = 1200, 450
	// read lists n numbers, in pages of at most maxPage.
	read := func(p client.Page) (rows []int, next string, err error) {
		from, _ := strconv.Atoi(p.Cursor)
		for i := from; i < n && len(rows) < min(maxPage, p.Limit); i++ {
			rows = append(rows, i)
		}
		if end := from + len(rows); end < n {
			next = strconv.Itoa(end)
		}
		return rows, next, nil
	}
	for limit, want := range map[int]int{0: n, 1: 1, 450: 450, 451: 451, 500: 500, 501: 501, n: n, n + 1: n} {
		got, err := client.Collect(limit, read)
		require.NoError(t, err)
		require.Len(t, got, want)
		for i, x := range got {
			require.Equal(t, i, x)
		}
	}
	none, err := client.Collect(0, func(client.Page) ([]int, string, error) { return nil, "", nil })
	require.NoError(t, err)
	require.NotNil(t, none, "JSON has an empty list")
	_, err = client.Collect(0, func(client.Page) ([]int, string, error) { return []int{1}, "same", nil })
	require.ErrorContains(t, err, "twice in a row")
	failed := errors.New("failed")
	_, err = client.Collect(0, func(p client.Page) ([]int, string, error) {
		return []int{1}, p.Cursor + "x", map[bool]error{true: failed}[p.Cursor != ""]
	})
	require.ErrorIs(t, err, failed)
}
