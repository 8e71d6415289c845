package host

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	named := func(names ...string) (tools []tool.Tool) {
		for _, n := range names {
			tools = append(
				tools,
				tool.Func(abi.Tool{Name: n}, func(context.Context, abi.Call) (*abi.Result, error) { return nil, nil }),
			)
		}
		return tools
	}
	builtins := toolSet{"the built-in tools", named("time", "read_file")}

	tools, err := joinTools(builtins, toolSet{`MCP server "web"`, named("fetch")})
	require.NoError(t, err)
	var names []string
	for _, tl := range tools {
		names = append(names, tl.Declaration().Name)
	}
	require.Equal(t, []string{"time", "read_file", "fetch"}, names)

	_, err = joinTools(
		builtins,
		toolSet{`MCP server "files"`, named("read_file", "x", "x")},
		toolSet{`MCP server "more"`, named("read_file")},
	)
	require.EqualError(
		t,
		err,
		`tool "read_file" is offered by the built-in tools and by MCP server "files" and by MCP server "more"; remove all but one
tool "x" is offered by MCP server "files" twice; remove all but one`,
	)
}
