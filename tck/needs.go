package tck

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/internal/golden"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
)

// textsCapability is the capability of a host whose error messages are identical to those of
// agent-runner.
const textsCapability = "texts"

// needs returns the sorted capabilities that a host needs for a case's request and for modules
// built for a transport. README.md lists them.
func needs(r *wire.Request, transport string) []string {
	list := capabilities{transport: transport}
	list.add("ag_ui", r.Client)
	list.add("several_runs", r.Runs > 1)
	list.add("metadata", r.Metadata != nil)
	list.add("resume", r.Answers != nil)
	list.add("other_agent_resumes", r.Resumed != nil)
	for _, t := range r.Tools {
		list.add("streaming_tools", t.Streams)
		for _, turn := range t.Turns {
			list.add("tools_wait", turn.After != "")
			list.add("tools_cancel", turn.Cancels)
			list.add("tools_panic", turn.Panic != "")
		}
	}
	list.agent(r.Agent)
	if r.Resumed != nil {
		list.agent(r.Resumed)
	}
	slices.Sort(list.names)
	return list.names
}

type capabilities struct {
	transport string
	names     []string
}

// add adds the named capability to the list if needed is true.
func (c *capabilities) add(name string, needed bool) {
	if needed && !slices.Contains(c.names, name) {
		c.names = append(c.names, name)
	}
}

func (c *capabilities) agent(a *wire.Agent) {
	c.add("instruction", a.Instruction != "")
	c.add("return_directly", a.ReturnDirectly != nil)
	c.add("no_stream", a.NoStream)
	c.add("timeout", a.TimeoutMS > 0)
	c.add("limits", a.Limits != nil)
	c.add("journal", a.Limits != nil && a.Limits.JournalBytes > 0)
	c.add("retries", a.Retries > 0)
	c.add("fallbacks", a.Fallbacks != nil)
	c.add("given", a.Given != nil)
	c.add("keep_orphan_results", a.KeepOrphanResults)
	c.add("continue_on_error", a.ContinueOnError)
	c.add("continue_on_response", a.ContinueOnResponse)
	for _, list := range [][]wire.Middleware{a.Middlewares, a.Given} {
		for _, m := range list {
			c.middleware(m)
		}
	}
	for _, other := range a.Agents {
		c.add("agents", !other.Transfer)
		c.add("transfer", other.Transfer)
		c.agent(other)
	}
}

func (c *capabilities) middleware(m wire.Middleware) {
	c.add("rings", m.Ring != "")
	c.add("on_fault", m.OnFault != "")
	c.add("read", m.Read != "")
	c.add("grants", m.Grants != nil)
	c.add("when", m.When != nil)
	c.add(c.transport, strings.HasSuffix(m.Module, ".go"))
	c.add(native, strings.HasSuffix(m.Module, ".wasm"))
	for _, h := range m.Hooks {
		c.add("hook:"+string(h), true)
	}
}

// missing returns the needed capabilities that a host does not have.
func missing(needed, has []string) []string {
	if slices.Contains(has, "*") {
		return nil
	}
	var out []string
	for _, n := range needed {
		if !slices.Contains(has, n) {
			out = append(out, n)
		}
	}
	return out
}

// checkCapabilities checks that the kit knows each capability that a host lists: a misspelled one
// would skip cases.
func checkCapabilities(listed []string, cases []*golden.Case) error {
	known := []string{"*", textsCapability, native, extism, typeScript}
	for _, c := range cases {
		known = append(known, needs(c.Request(), native)...)
	}
	for _, name := range listed {
		if !slices.Contains(known, name) {
			return fmt.Errorf(
				"the host lists the capability %s, which no case needs; tck/README.md lists all",
				strconv.Quote(cut(name)),
			)
		}
	}
	return nil
}
