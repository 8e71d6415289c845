package middlewaretest_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// recorder implements the hooks that have no constructor.
type recorder struct{}

func (r *recorder) ToolMessages(_ *middleware.Context, record *middleware.ToolRecord) error {
	record.Messages = []abi.Message{record.Default}
	return nil
}

func (r *recorder) TranslateBefore(_ *middleware.Context, t *middleware.Translation) error {
	t.Event = []byte(`{"type":"log"}`)
	return nil
}

func (r *recorder) TranslateAfter(_ *middleware.Context, t *middleware.Translation) error {
	t.Drop = true
	return nil
}

func TestHooks(t *testing.T) {
	t.Parallel()
	h := middlewaretest.New(middleware.Options{}, &recorder{})
	record, err := h.ToolMessages(abi.ToolMessagesInput{Default: abi.ToolMessage("c", "t", abi.Text("x"))})
	require.NoError(t, err)
	require.Equal(t, "c", record.Messages[0].ToolCallID)
	before, err := h.TranslateBefore(abi.TranslateInput{Event: []byte(`{}`)})
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"log"}`, string(before.Event))
	after, err := h.TranslateAfter(abi.TranslateInput{Event: []byte(`{}`)})
	require.NoError(t, err)
	require.True(t, after.Drop)

	require.True(t, h.Has(contract.HookToolMessages))
	require.False(t, h.Has(contract.HookOnChunk))
	_, err = h.OnChunk(abi.OnChunkInput{})
	require.EqualError(t, err, "the module has no hook on_chunk: no middleware of it has the method")
}

func TestNextWithoutAnswer(t *testing.T) {
	t.Parallel()
	model := func(_ *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
		req.Tools = req.Tools[1:]
		delete(req.Params, "stop")
		return next(req)
	}
	tool := func(_ *middleware.Context, call *middleware.Call, next middleware.NextTool) (*abi.Result, error) {
		return next(call)
	}
	h := middlewaretest.New(middleware.Options{}, middleware.WithModelWrapper(model), middleware.WithToolCallWrapper(tool))
	in := abi.WrapModelInput{Request: abi.Request{
		Tools: []abi.Tool{{Name: "a"}, {Name: "b"}}, Params: abi.Params{"stop": []byte(`"x"`), "n": []byte("1")},
	}}
	_, err := h.WrapModel(in)
	require.EqualError(t, err, "the test's Host has no Model")
	_, err = h.WrapToolCall(abi.WrapToolCallInput{})
	require.EqualError(t, err, "the test's Host has no Tool")

	h.Model = func(call middlewaretest.ModelCall) (*abi.Response, error) {
		require.Equal(t, []abi.Tool{{Name: "b"}}, call.Tools)
		require.Equal(t, abi.Params{"n": []byte("1")}, call.Params)
		return nil, errors.New("overloaded")
	}
	_, err = h.WrapModel(in)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeModel})
	h.Tool = func(abi.Call) (*abi.Result, error) { return nil, &abi.Error{Code: abi.CodeDenied, Message: "no"} }
	_, err = h.WrapToolCall(abi.WrapToolCallInput{})
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeDenied})
}

// TestFailedHook checks that a hook that fails changes neither messages nor run-local values, that
// a hook that stops the run does not change messages, and that a successful hook changes both.
func TestFailedHook(t *testing.T) {
	t.Parallel()
	var ending error
	h := middlewaretest.New(middleware.Options{}, middleware.WithBeforeModelRewriteState(
		func(ctx *middleware.Context, state *middleware.State) error {
			state.Messages.Append(abi.User("more"))
			if err := middleware.Local[string]("k").Set(ctx, "v"); err != nil {
				return err
			}
			return ending
		}))
	h.SetMessages(abi.User("one"))
	step := func() (abi.BeforeModelRewriteStateAnswer, error) {
		return h.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
	}
	ending = errors.New("no")
	_, err := step()
	require.EqualError(t, err, "no")
	var value string
	ok, err := h.Local("k", &value)
	require.NoError(t, err)
	require.False(t, ok)
	require.Len(t, h.Messages(), 1)

	ending = (&middleware.Context{}).Stop("enough", "")
	answer, err := step()
	require.NoError(t, err)
	require.Equal(t, "enough", answer.Stop.Reason)
	require.Len(t, h.Messages(), 1)

	ending = nil
	_, err = step()
	require.NoError(t, err)
	ok, err = h.Local("k", &value)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "v", value)
	require.Len(t, h.Messages(), 2)
	require.Equal(t, "module:test", h.Messages()[1].Origin)
	require.NotEmpty(t, h.Messages()[1].ID)
}
