package middlewaretest_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

// reviewer asks the model whether an answer is good, and calls a tool if it is not good.
type reviewer struct{ verdict, found string }

func (r *reviewer) AfterModel(ctx *middleware.Context, end *middleware.ModelEnd) error {
	res, err := ctx.Model(middleware.ModelCall{
		Messages: []abi.Message{abi.User("Is this good? " + end.Response.Message.Content.String())},
		Model:    "small", Params: map[string]any{"temperature": 0, "stop": nil},
	})
	if err != nil {
		return err
	}
	if r.verdict = res.Message.Content.String(); r.verdict == "yes" {
		return nil
	}
	result, err := ctx.Tool("search", map[string]string{"q": "better"})
	if err != nil {
		return err
	}
	r.found = result.Content.String()
	return nil
}

func TestOwnCalls(t *testing.T) {
	t.Parallel()
	r := &reviewer{}
	h := middlewaretest.New(middleware.Options{Name: "reviewer"}, r)
	end := abi.AfterModelInput{Response: &abi.Response{Message: abi.Assistant("42")}, Source: "model"}

	_, err := h.AfterModel(end)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeDenied}, "without the grant")

	h.OwnModel = func(call middlewaretest.ModelCall) (*abi.Response, error) {
		require.Equal(t, "Is this good? 42", call.Messages[0].Content.String())
		require.Equal(t, "small", call.Model)
		require.Equal(t, abi.Params{"temperature": abi.JSON("0"), "stop": abi.JSON("null")}, call.Params)
		require.Empty(t, call.Tools)
		return &abi.Response{Message: abi.Assistant("no")}, nil
	}
	h.OwnTool = func(name, arguments string) (*abi.Result, error) {
		require.Equal(t, `search {"q":"better"}`, name+" "+arguments)
		return abi.TextResult("43"), nil
	}
	_, err = h.AfterModel(end)
	require.NoError(t, err)
	require.Equal(t, &reviewer{"no", "43"}, r)

	h.OwnModel = func(middlewaretest.ModelCall) (*abi.Response, error) { return nil, errors.New("overloaded") }
	_, err = h.AfterModel(end)
	require.ErrorIs(t, err, &abi.Error{Code: abi.CodeModel})
}
