package server_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// directory is a module with a tool that returns an email address.
const directory = `import { defineMiddleware } from "@agent-runner/middleware";

export default defineMiddleware({
	name: "directory",
	beforeAgent: () => ({
		tools: { add: [{ name: "lookup", description: "looks somebody up", parameters: { type: "object" } }] },
	}),
	// The bundle that the store has must not have the address.
	callTool: () => ({ result: { content: "Bob is " + ["bob", "example.com"].join("@") + "." } }),
});
`

// TestRedactedRunsAreStoredRedacted checks that the module "redact" keeps email addresses of the
// input, the model and tools out of the store and out of the server's responses once the run has
// ended. With the option Originals, the store has them.
func TestRedactedRunsAreStoredRedacted(t *testing.T) {
	t.Parallel()
	redact := guestbuild.Build(t, "examples/wasm-middlewares/redact")
	database := postgrestest.Start(t)
	message := func(role, text string) any { return map[string]any{"role": role, "content": text} }
	input := []any{
		message("user", "Write to amy@example.org."),
		message("assistant", "Or to eve@example.org?"),
		message("user", "I am ann@example.org."),
	}
	given, answered := []string{"amy@", "eve@", "ann@"}, []string{"bob@", "cy@", "dan@"}
	for name, tc := range map[string]struct {
		config    string
		postgres  bool
		originals bool
		finish    string
		title     string
	}{
		"redact":     {config: "{tool_arguments: true}", finish: "stop", title: "I am [REDACTED_EMAIL]."},
		"PostgreSQL": {config: "{tool_arguments: true}", finish: "stop", title: "I am [REDACTED_EMAIL].", postgres: true},
		"block":      {config: "{strategy: block}", finish: "stopped", title: "I am [BLOCKED_EMAIL]."},
		"originals":  {config: "{}", finish: "stop", title: "I am ann@example.org.", originals: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			where := filepath.Join(t.TempDir(), "s.db")
			if tc.postgres {
				where = database.Create(t, "originals")
			}
			f := servertest.NewAt(t, where)
			f.Services.Agents.Options.Journal.Originals = tc.originals
			answer := scripted.Text("Write to dan@example.net.")
			answer.Response.Message.ReasoningContent = "It is dan@example.net."
			f.SetReplies(scripted.Calls(abi.NewToolCall("1", "lookup", `{"for":"cy@example.net"}`)), answer)
			require.Less(t, f.PushModule(f.Acme, "?name=redact&version=1", redact, "application/wasm").Status, 300)
			f.Upload(f.Acme, "directory", directory)
			r := f.Apply(
				f.Acme,
				"helper",
				"model: {name: small}\nmiddlewares: [{module: directory}, {module: redact, config: "+tc.config+"}]\n",
			)
			require.Equal(t, 200, r.Status, string(r.Body))

			var run api.Run
			start := func(input []any) *servertest.Reply {
				in := map[string]any{"agent": "helper", "messages": input}
				return f.Send("POST", "/v1/runs", f.Acme, in, "Idempotency-Key", "once")
			}
			require.NoError(t, json.Unmarshal(start(input).Body, &run))
			run = *f.Finished(f.Acme, run.ID)
			var again api.Run
			require.NoError(t, json.Unmarshal(start(input).Body, &again))
			require.Equal(t, run.ID, again.ID, "modules changed the stored input, not the request")
			start(input[:1]).Problem(t, 422)
			require.Equal(t, tc.finish, run.FinishReason, run.Error)
			require.Equal(t, tc.title, run.Title)
			if tc.originals {
				stored := everything(t, where)
				for _, address := range append(given, answered...) {
					require.True(t, strings.Contains(stored, address), "the store lacks %s", address)
				}
				return
			}
			var history api.RunHistory
			f.OK("GET", "/v1/runs/"+run.ID+"/history", f.Acme, nil, &history)
			shown := string(history.Input) + string(history.Messages) + string(history.Phases)
			for _, path := range []string{
				"/v1/runs", "/v1/runs/" + run.ID, "/v1/runs/" + run.ID + "/events", "/v1/runs/" + run.ID + "/trace",
			} {
				shown += string(f.OK("GET", path, f.Acme, nil, nil).Body)
			}
			for _, e := range f.Events("GET", "/v1/runs/"+run.ID+"/events", f.Acme, nil) {
				shown += e.Data
			}
			stored := everything(t, where)
			require.Contains(t, stored, run.ID)
			for _, address := range append(given, answered...) {
				require.NotContains(t, shown, address)
				require.False(t, strings.Contains(stored, address), "the store has %s", address)
			}
			require.Contains(t, string(history.Phases), `"erased":true`)
			if tc.finish == "stop" {
				require.Contains(t, string(history.Messages), "Bob is [REDACTED_EMAIL].")
				require.Contains(t, string(history.Messages), "Write to [REDACTED_EMAIL].")
			}
		})
	}
}

// everything returns the complete content of a store: the rows of all tables, and the bytes of an
// SQLite database after a checkpoint.
func everything(t *testing.T, where string) string {
	t.Helper()
	columns := `SELECT json_build_array(table_name, column_name, data_type) FROM information_schema.columns WHERE table_schema = 'public'`
	driver, files := "pgx", ""
	if !strings.HasPrefix(where, "postgres:") {
		driver = "sqlite"
		columns = `SELECT json_array(m.name, c.name, '') FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'`
	}
	db, err := sql.Open(driver, where)
	require.NoError(t, err)
	defer db.Close()
	if driver == "sqlite" {
		_, err = db.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)")
		require.NoError(t, err)
		for _, name := range []string{where, where + "-wal"} {
			b, err := os.ReadFile(name)
			require.NoError(t, err)
			files += string(b)
		}
	}
	texts := func(query string) (out []string) {
		rows, err := db.QueryContext(t.Context(), query)
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var text sql.NullString
			require.NoError(t, rows.Scan(&text))
			out = append(out, text.String)
		}
		require.NoError(t, rows.Err())
		return out
	}
	var all strings.Builder
	for _, column := range texts(columns) {
		var c [3]string
		require.NoError(t, json.Unmarshal([]byte(column), &c))
		text := "CAST(%q AS text)"
		if c[2] == "bytea" {
			text = "encode(%q, 'escape')"
		}
		for _, row := range texts(fmt.Sprintf("SELECT "+text+" FROM %q", c[1], c[0])) {
			all.WriteString(row + "\n")
		}
	}
	return all.String() + files
}
