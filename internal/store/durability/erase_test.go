package durability_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/store"
)

const address = "amy@example.org"

// hideText returns the patch of a hook that hides the address in the second message. If rebuild is
// true, a new message replaces that message; otherwise its content is changed.
func hideText(c *hook.Call, rebuild bool) abi.ListPatch {
	m := c.List(0).At(1)
	text := strings.ReplaceAll(m.Content.String(), address, "[EMAIL]")
	if rebuild {
		m = abi.User("")
	}
	m.Content = abi.Text(text)
	return abi.ListPatch{Splice: []abi.Splice{{At: 1, Remove: 1, Insert: []abi.Message{m}}}}
}

// TestOriginalsAreErased checks that neither the log nor the title stores text that modules remove
// from a run's messages before its first model call. With the option Originals, both store the
// text.
func TestOriginalsAreErased(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	start := func(rebuild bool) *inproc.Middleware {
		return &inproc.Middleware{
			BeforeAgent: func(_ context.Context, c *hook.Call, _ *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
				return &abi.BeforeAgentAnswer{Messages: hideText(c, rebuild)}, nil
			},
		}
	}
	rewrite := &inproc.Middleware{
		BeforeAgent: func(_ context.Context, c *hook.Call, _ *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			first := c.List(0).At(0)
			first.Content = abi.Text("Be brief and kind.")
			return &abi.BeforeAgentAnswer{
				Messages: abi.ListPatch{Splice: []abi.Splice{{At: 0, Remove: 1, Insert: []abi.Message{first}}}},
			}, nil
		},
		BeforeModelRewriteState: func(
			_ context.Context, c *hook.Call, _ *abi.BeforeModelRewriteStateInput,
		) (*abi.BeforeModelRewriteStateAnswer, error) {
			return &abi.BeforeModelRewriteStateAnswer{Messages: hideText(c, false)}, nil
		},
	}
	server := postgrestest.Start(t)
	for name, tc := range map[string]struct {
		hooks     *inproc.Middleware
		size      int
		postgres  bool
		originals bool
	}{
		"changed":               {hooks: start(false)},
		"replaced":              {hooks: start(true)},
		"before the model":      {hooks: rewrite},
		"in pieces":             {hooks: start(false), size: 3 << 20},
		"originals":             {hooks: start(false), originals: true},
		"PostgreSQL":            {hooks: start(false), postgres: true},
		"PostgreSQL, in pieces": {hooks: rewrite, postgres: true, size: 3 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "s.db")
			where := file
			if tc.postgres {
				where = server.Create(t, fmt.Sprintf("originals_%d", tc.size))
			}
			s, err := store.Open(t.Context(), where, nil)
			require.NoError(t, err)
			c, err := chain.New(hook.Entry{Name: "hide", Ring: hook.Tenant, Middleware: tc.hooks})
			require.NoError(t, err)
			model := scripted.New(scripted.Text("done"))
			a, err := agent.New(&agent.Options{Name: "a", ModelName: "m", Model: model, Chain: c,
				Journal: &journal.Options{Journal: s, Owner: "me", Originals: tc.originals}})
			require.NoError(t, err)
			said := "I am " + address + "." + strings.Repeat(" word", tc.size/5)
			for _, err := range a.Run(t.Context(), agent.Input{
				RunID: "run_1", Messages: []abi.Message{abi.User("Be brief."), abi.User(said)},
			}) {
				require.NoError(t, err)
			}

			stored, err := s.Load(t.Context(), "run_1")
			require.NoError(t, err)
			h, err := runlog.ReadHistory(stored)
			require.NoError(t, err)
			require.Equal(t, "I am [EMAIL].", h.State.Messages.At(1).Content.String()[:13], "the state has the rewritten text")
			require.Len(t, h.Input, 2)
			if tc.originals {
				require.Contains(t, stored.Title, address)
				require.Contains(t, h.Input[1].Content.String(), address)
				require.NoError(t, s.Close())
				return
			}
			require.True(t, strings.HasPrefix(stored.Title, "I am [EMAIL]."), stored.Title)
			require.False(t, bytes.Contains(bytes.Join(stored.Log, nil), []byte(address)))
			require.NoError(t, s.Close())
			if tc.postgres {
				requireNoRow(t, where)
				return
			}
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			require.False(t, bytes.Contains(b, []byte(address)), "in the database file")
			require.NoFileExists(t, file+"-wal")
		})
	}
}

// requireNoRow checks that no row of a run contains the address.
func requireNoRow(t *testing.T, where string) {
	t.Helper()
	db, err := sql.Open("pgx", where)
	require.NoError(t, err)
	defer db.Close()
	for _, column := range []string{"runs.title", "runs.pending", "run_log.body", "run_events.body", "pieces.body"} {
		table, name, _ := strings.Cut(column, ".")
		var n int
		of := name
		if name == "body" {
			of = "encode(body, 'escape')"
		}
		require.NoError(t,
			db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table+" WHERE "+of+" LIKE '%"+address+"%'").Scan(&n))
		require.Zero(t, n, column)
	}
}
