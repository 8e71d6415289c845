package httpapi

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
)

func TestCursor(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_789_000_000_123)
	for _, p := range []store.Position{{}, {Name: "a"}, {Created: at, Name: "run_1"}, {Created: at}, {Created: time.UnixMilli(-5), Name: "é/…/ "}, {Name: strings.Repeat("n", 200)}} {
		cursor := encodeCursor(ListRuns, "acme", &p)
		require.Equal(t, cursor, url.QueryEscape(cursor))
		got, ok := decodeCursor(ListRuns, "acme", cursor)
		require.True(t, ok, p)
		require.Equal(t, p, *got)
		for list, tenant := range map[ListName]string{
			ListRuns: "beta", ListKeys: "acme", "run": "s\x00acme", "": "runs\x00acme",
		} {
			_, ok = decodeCursor(list, tenant, cursor)
			require.False(t, ok, "%s of %s", list, tenant)
		}
	}
	_, ok := decodeCursor(ListRuns, "acme", encodeCursor(ListRuns, "acme", &store.Position{Name: "a\x00b"}))
	require.False(t, ok, "no database takes it")
	_, ok = decodeCursor(ListRuns, "acme", encodeCursor(ListRuns, "acme", &store.Position{Name: "\xff"}))
	require.False(t, ok, "no database takes it")
}

// FuzzCursor checks that a valid cursor is exactly the one that the server returns for its
// position, that it is valid only for its own list and tenant, and that cursors preserve their
// positions.
func FuzzCursor(f *testing.F) {
	at := store.Position{Created: time.UnixMilli(1_789_000_000_123), Name: "run_1"}
	f.Add("acme", encodeCursor(ListRuns, "acme", &at), int64(0), "")
	f.Add("", encodeCursor(ListRuns, "", &store.Position{}), int64(-1), "a/b/c")
	for _, s := range []string{"", "AQ", "AQAAAAAAAAAAAA", "!", "AQ==", strings.Repeat("A", 600), "AQ\n"} {
		f.Add("acme", s, int64(1), s)
	}
	f.Fuzz(func(t *testing.T, tenant, cursor string, created int64, name string) {
		if p, ok := decodeCursor(ListRuns, tenant, cursor); ok {
			require.Equal(t, cursor, encodeCursor(ListRuns, tenant, p))
			_, ok = decodeCursor(ListKeys, tenant, cursor)
			require.False(t, ok)
			_, ok = decodeCursor(ListRuns, tenant+"x", cursor)
			require.False(t, ok)
		}
		p := store.Position{Name: name}
		if created != 0 {
			p.Created = time.UnixMilli(created)
		}
		made := encodeCursor(ListRuns, tenant, &p)
		if got, ok := decodeCursor(ListRuns, tenant, made); ok {
			require.Equal(t, p.Name, got.Name)
			require.Equal(t, p.Created.UnixMilli(), got.Created.UnixMilli())
		}
	})
}
