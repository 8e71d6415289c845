package host

import (
	"context"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// agents creates the sub-agents of the file. It returns tools that call sub-agents, and the agents
// to which the conversation can be transferred.
func (b *builder) agents(ctx context.Context) (tools []tool.Tool, others []*agent.Agent, err error) {
	for i := range b.file.Agents {
		from := &b.file.Agents[i]
		inner := &builder{host: b.host, file: b.inherit(from), opts: b.opts, around: b, description: from.Description}
		a, err := inner.build(ctx)
		inner.closeModules()
		b.closers = append(b.closers, inner.closers...)
		if err != nil {
			return nil, nil, err
		}
		b.closers = append(b.closers, a.Close)
		if from.As == agentfile.UseTransfer {
			others = append(others, a.Agent)
			continue
		}
		tools = append(tools, agent.Tool(a.Agent, &agent.ToolOptions{Description: from.Description}))
	}
	return tools, others, nil
}

// inherit returns the file of a sub-agent with three changes. Its name is the sub-agent's name in b.file. If it names
// no model, it gets the model of b.file, but keeps its own parameters if it has any. The modules of b.file's rings
// are added around its own.
func (b *builder) inherit(from *agentfile.Agent) *agentfile.File {
	f := *from.Spec()
	f.Name = from.Name
	if f.Model.Name == "" && f.Model.BaseURL == "" {
		params := f.Model.Params
		f.Model = b.file.Model
		if params != nil {
			f.Model.Params = params
		}
	}
	f.Rings.Outer = slices.Concat(b.file.Rings.Outer, f.Rings.Outer)
	f.Rings.Inner = slices.Concat(f.Rings.Inner, b.file.Rings.Inner)
	return &f
}

// cycle allows each agent to transfer the conversation to every other agent.
func cycle(agents []*agent.Agent) error {
	for _, a := range agents {
		to := slices.DeleteFunc(slices.Clone(agents), func(b *agent.Agent) bool { return b == a })
		if err := a.AllowTransfer(to...); err != nil {
			return err
		}
	}
	return nil
}

// A modelRouter and extensions let agents of a file have different models, although
// FileOptions.WrapModel is called only once. WrapModel wraps the modelRouter. An extension puts the
// model of an agent into the context of a call, and the modelRouter calls the model in the context.
type (
	modelRouter struct{ model.Model } // the default model
	extension   struct {
		modelRouter model.Model // the modelRouter, wrapped by WrapModel
		model       model.Model
	}
	extensionKey struct{}
)

// Generate implements [model.Model].
func (s *modelRouter) Generate(
	ctx context.Context,
	req *model.Request,
	sink func(abi.Chunk) error,
) (*abi.Response, error) {
	if m, ok := ctx.Value(extensionKey{}).(model.Model); ok {
		return m.Generate(ctx, req, sink)
	}
	return s.Model.Generate(ctx, req, sink)
}

// Generate implements [model.Model].
func (e *extension) Generate(
	ctx context.Context,
	req *model.Request,
	sink func(abi.Chunk) error,
) (*abi.Response, error) {
	return e.modelRouter.Generate(context.WithValue(ctx, extensionKey{}, e.model), req, sink)
}
