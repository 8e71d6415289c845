package host_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model/scripted"
)

func TestARunAfterCloseOfTheHost(t *testing.T) {
	t.Parallel()
	h, err := host.New(t.Context(), nil)
	require.NoError(t, err)
	m, err := h.Load(t.Context(), "../testdata/modules/no-tools.wasm", host.Limits{})
	require.NoError(t, err)
	with, err := h.NewAgent(
		t.Context(),
		&host.AgentOptions{Model: scripted.New(), Middlewares: []host.Middleware{{Module: m}}},
	)
	require.NoError(t, err)
	without, err := h.NewAgent(t.Context(), &host.AgentOptions{Model: scripted.New()})
	require.NoError(t, err)
	require.NoError(t, h.Close(context.Background()))
	_, err = h.Load(t.Context(), "../testdata/modules/no-tools.wasm", host.Limits{})
	require.ErrorIs(t, err, host.ErrClosed)
	for _, a := range []*host.Agent{with, without} {
		_, err := a.Ask(t.Context(), "hi")
		require.ErrorIs(t, err, host.ErrClosed)
		require.ErrorContains(t, err, "the run cannot begin: the host is closed")
		var refused *host.AdmissionError
		require.ErrorAs(t, err, &refused)
	}
}
