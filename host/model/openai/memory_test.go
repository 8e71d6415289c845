package openai

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/account"
)

// TestAnswersAreCounted checks that an answer that exceeds the run's memory limit is an error
// with the code [abi.CodeLimit], and that its memory is released.
func TestAnswersAreCounted(t *testing.T) {
	t.Parallel()
	long := delta(`{"content":"` + strings.Repeat("x", 512<<10) + `"}`)
	stream := sse(long, long, long, long, finish("stop"))
	whole := `{"choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat(
		"x",
		2<<20,
	) + `"},"finish_reason":"stop"}]}`
	for name, c := range map[string]model.Client{
		"stream": serve(t, model.ClientOptions{}, answers("text/event-stream", stream)),
		"whole":  serve(t, model.ClientOptions{}, answers("application/json", whole)),
	} {
		run := account.New(account.LevelRun, "r", nil, 1<<20)
		_, err := c.Generate(account.WithContext(t.Context(), run), ask(), nil)
		var failed *model.Error
		require.ErrorAs(t, err, &failed, name)
		require.Equal(t, abi.CodeLimit, failed.Code, name)
		require.Contains(t, failed.Message, "memory limit: the run holds", name)
		require.Greater(t, run.Peak(), int64(512<<10), name)
		require.Zero(t, run.Used(), name)

		_, err = c.Generate(account.WithContext(t.Context(), account.New(account.LevelRun, "r", nil, 8<<20)), ask(), nil)
		require.NoError(t, err, name)
	}
}
