//go:build !wasip1

package main

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// TestParallelRuns checks that concurrent runs of a day, in the real host with a real store, use
// exactly the calls that the limits allow.
func TestParallelRuns(t *testing.T) {
	t.Parallel()
	h, err := host.New(t.Context(), &host.Options{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.Close(context.Background())) })
	m, err := h.LoadBytes(
		t.Context(),
		"limits.wasm",
		guestbuild.Build(t, "examples/wasm-middlewares/limits"),
		host.Limits{},
	)
	require.NoError(t, err)
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "values.db"), &store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })

	const runs, each, allowed, asked = 8, 3, 5, 12
	var mails, calls atomic.Int64
	mail := tool.Func(abi.Tool{Name: "mail"}, func(context.Context, abi.Call) (*abi.Result, error) {
		mails.Add(1)
		return abi.TextResult("sent"), nil
	})
	a, err := h.NewAgent(t.Context(), &host.AgentOptions{
		Model: scripted.Func(func(n int, _ *model.Request) scripted.Reply {
			calls.Add(1)
			var list []abi.ToolCall
			for i := range each {
				list = append(list, abi.NewToolCall(strconv.Itoa(100*n+i), "mail", "{}"))
			}
			return scripted.Calls(list...)
		}),
		ModelName: "m", Tools: []tool.Tool{mail}, Values: s,
		Middlewares: []host.Middleware{
			{
				Module: m,
				Grants: host.Grants{Store: true},
				Config: []byte(`{"day":{"model_calls":12,"tools":{"mail":5}},"on_limit":"stop"}`),
			},
		},
	})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	var all sync.WaitGroup
	for range runs {
		all.Go(func() {
			for _, err := range a.Run(t.Context(), host.Input{Messages: []abi.Message{abi.User("go")}}) {
				var stop *host.StoppedError
				assert.True(t, err == nil || errors.As(err, &stop), "%v", err)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, allowed, mails.Load(), "mails")
	require.EqualValues(t, asked, calls.Load(), "model calls")
}
