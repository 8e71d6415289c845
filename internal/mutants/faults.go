package main

// A fault is a small change of one source file that breaks one rule. What it
// replaces stands in the file exactly once.
type fault struct {
	name     string // the rule that it breaks
	file     string
	old, new string
}

const (
	chainFile    = "host/chain/chain.go"
	exchangeFile = "host/chain/exchange.go"
	gateFile     = "host/chain/gate.go"
	invokeFile   = "host/chain/invoke.go"
	recordFile   = "host/chain/record.go"
	stateFile    = "host/chain/state.go"
	toolFile     = "host/chain/tool.go"

	agentFinish = "host/agent/finish.go"
	agentModel  = "host/agent/model.go"
	agentRun    = "host/agent/run.go"
	agentTools  = "host/agent/tools.go"
)

var faults = []fault{
	// Order.
	{"pipelines run last module first", chainFile,
		"func (r *Run) in(ring Ring, h abi.Hook) []*member {\n\tvar out []*member\n\tfor _, m := range r.ring[ring] {",
		"func (r *Run) in(ring Ring, h abi.Hook) []*member {\n\tvar out []*member\n\tfor _, m := range slices.Backward(r.ring[ring]) {"},
	{"the last wrapper is the outermost", exchangeFile,
		"x.onion(ctx, i, x.run.in(i, x.wrap), q, s)",
		"x.onion(ctx, i, func() (w []*member) {\n\t\t\t\tfor _, m := range x.run.in(i, x.wrap) {\n\t\t\t\t\tw = append([]*member{m}, w...)\n\t\t\t\t}\n\t\t\t\treturn w\n\t\t\t}(), q, s)"},
	{"after_agent runs from outside in", stateFile,
		"range r.outward(abi.HookAfterAgent)", "range r.inward(abi.HookAfterAgent)"},
	{"tool_messages asks the inner ring first", toolFile,
		"range r.inward(abi.HookToolMessages)", "range r.outward(abi.HookToolMessages)"},
	{"the message is told before it is rewritten", agentRun,
		"\ts.Messages = messages\n\tlast, ok := s.Messages.Last()\n\tif !ok {\n\t\treturn \"\", &abi.Error{Code: abi.CodeInvalid, Message: \"after_model_rewrite_state left no messages\"}\n\t}\n\tr.tellMessage(response.ID)\n",
		"\tr.tellMessage(response.ID)\n\ts.Messages = messages\n\tlast, ok := s.Messages.Last()\n\tif !ok {\n\t\treturn \"\", &abi.Error{Code: abi.CodeInvalid, Message: \"after_model_rewrite_state left no messages\"}\n\t}\n"},
	{"results are recorded as they come", agentTools,
		"\t\t\tendings[i] = r.runCall(ctx, &calls[i])\n",
		"\t\t\tif endings[i] = r.runCall(ctx, &calls[i]); calls[i].Result != nil {\n\t\t\t\tr.mu.Lock()\n\t\t\t\tr.state.Messages = r.state.Messages.Append(calls[i].Messages...)\n\t\t\t\tcalls[i].Messages = nil\n\t\t\t\tr.mu.Unlock()\n\t\t\t}\n"},

	// What is kept, and what is not.
	{"a state pipeline is kept though it failed", agentRun,
		"\td, err := r.chain.BeforeModelRewriteState(ctx, r.draft())\n\tif err != nil {\n\t\treturn \"\", err\n\t}\n\ts.Messages, s.Active = d.Messages, d.Active\n",
		"\td, err := r.chain.BeforeModelRewriteState(ctx, r.draft())\n\ts.Messages, s.Active = d.Messages, d.Active\n\tif err != nil {\n\t\treturn \"\", err\n\t}\n"},
	{"what before_model changes is kept", agentModel,
		"\tr.state.Told = toolNames(q.Tools)\n\treq := ", "\tr.state.Told, r.state.Messages = toolNames(q.Tools), q.Messages\n\treq := "},
	{"run-local values of a faulting hook are kept", invokeFile,
		"\tcase err != nil:\n\t\treturn r.fault(c, StageHook, err)\n",
		"\tcase err != nil:\n\t\t_ = c.commit()\n\t\treturn r.fault(c, StageHook, err)\n"},
	{"results of siblings are lost when a call ends the run", agentTools,
		"\tr.recordResults()\n\treturn PhaseRound, err",
		"\tif err != nil {\n\t\treturn PhaseRound, err\n\t}\n\tr.recordResults()\n\treturn PhaseRound, nil"},
	{"open calls are not answered at the end", agentFinish, "\tr.answerAll(why)\n", "\t_ = why\n"},

	// Gates.
	{"gates judge arguments before they are rewritten", toolFile,
		"\t\tjudged, err := k.run.gate(ctx, k.call, q)\n",
		"\t\tasked := q\n\t\tif _, ok := k.run.record.decided(q, k.call.Tool.Owner); !ok {\n\t\t\tasked = k.call.Call\n\t\t}\n\t\tjudged, err := k.run.gate(ctx, k.call, asked)\n"},
	{"a gate is not asked again for arguments it has seen", invokeFile,
		"\tc.key = r.record.next(c.kind())\n",
		"\tif c.key = r.record.next(c.kind()); c.Hook == abi.HookGateTool {\n\t\tc.key = c.kind()\n\t}\n"},
	{"asking is stricter than denying", gateFile,
		"abi.DecideAsk: 1, abi.DecideDeny: 2", "abi.DecideAsk: 2, abi.DecideDeny: 1"},
	{"a gate that faults allows", gateFile,
		"\tcase v.faulted:\n\t\tout = abi.GateToolAnswer{Decision: abi.DecideDeny,",
		"\tcase v.faulted:\n\t\tout = abi.GateToolAnswer{Decision: abi.DecideAllow,"},
	{"a yes is good for any arguments", recordFile,
		" && a.Arguments == call.Arguments {", " {"},

	// Answers on their way outward.
	{"no after hooks on a short-circuit", exchangeFile,
		"\tshort := rep.res != nil || rep.err != nil\n",
		"\tshort := rep.res != nil || rep.err != nil\n\tif short {\n\t\treturn rep, nil\n\t}\n"},
	{"no on_chunk for whole answers", exchangeFile,
		"passed, err = s.filter(ctx, chunks, true)", "passed = chunks"},
	{"again has no end", exchangeFile,
		"case retry != nil && again >= abi.MaxAgain:", "case retry != nil && again >= 100:"},
	{"the last of several errors is reported", exchangeFile,
		"case v.failed != nil && failed.err == nil:", "case v.failed != nil:"},

	// Endings, faults, pauses.
	{"a wrapper catches a stop", toolFile,
		"\t\tcase err != nil:\n\t\t\treturn nil, err\n\t\tcase rep.err != nil:",
		"\t\tcase err != nil:\n\t\t\treturn nil, AsError(err, abi.CodeTool)\n\t\tcase rep.err != nil:"},
	{"a fault ends the run though it is to be skipped", invokeFile,
		"ends := !never && c.member.OnFault != Skip", "ends := !never"},
	{"a skipped wrapper's call is made again", exchangeFile,
		"\tcase v.faulted && lastGood.res != nil:\n\t\treturn lastGood, nil\n",
		"\tcase v.faulted:\n\t\treturn x.onion(ctx, i, wrappers[1:], q, s)\n"},
	{"after_agent is not called after an error", agentFinish,
		"\tr.endStep()\n\ts.Phase = PhaseEnd\n",
		"\tr.endStep()\n\ts.Phase = PhaseEnd\n\tif e.Error != nil {\n\t\tr.Send(e)\n\t\treturn\n\t}\n"},
	{"a tool that has run is run again after a pause", toolFile,
		"\tif v, ok, err := record.done(key, &known); ok && err == nil {",
		"\tif v, ok, err := record.done(key, &known); ok && err != nil {"},
	{"events are told again after a pause", recordFile,
		"\tif n <= e.Events {\n\t\treturn true\n", "\tif n <= e.Events {\n\t\treturn false\n"},
	{"a tool that returns directly leaves its siblings out", agentTools,
		"\t\tif calls[i].Result != nil {\n\t\t\tcontinue\n\t\t}\n\t\tif !calls[i].Told",
		"\t\tif calls[i].Result != nil || i > 0 && slices.Contains(r.state.ReturnDirectly, calls[0].Call.Name) {\n\t\t\tcontinue\n\t\t}\n\t\tif !calls[i].Told"},
	{"a tool that returns directly ends the run with its error", agentTools,
		"if c.Result.IsError || !slices.Contains(", "if !slices.Contains("},
}
