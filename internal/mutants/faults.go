package main

// A fault is a small change that breaks one rule of the agent loop. The tokens of old must occur
// exactly once in the package of file. Comments and formatting do not matter.
type fault struct {
	name     string // the effect
	by       string // the golden case that guards the rule
	file     string
	old, new string
}

const (
	exchangeFile = "internal/chain/exchange/exchange.go"
	gateFile     = "internal/chain/gate.go"
	invokeFile   = "internal/chain/hook/invoke.go"
	listsFile    = "internal/chain/hook/lists.go"
	editFile     = "internal/chain/message/edit.go"
	pairsFile    = "internal/chain/message/pairs.go"
	nestedFile   = "internal/chain/nested.go"
	recordFile   = "internal/chain/record/record.go"
	stateFile    = "internal/chain/state.go"
	streamFile   = "internal/chain/exchange/stream.go"
	toolFile     = "internal/chain/tool.go"
	transferFile = "internal/agent/transfer.go"
	wrappingFile = "internal/chain/exchange/wrapping.go"

	agentFinish = "internal/agent/finish.go"
	agentLimits = "internal/agent/limits.go"
	agentModel  = "internal/agent/model.go"
	agentRepair = "internal/agent/repair.go"
	agentRun    = "internal/agent/run.go"
	agentTools  = "internal/agent/tools.go"
)

var faults = []fault{
	// Order.
	{"pipelines run last module first", "eino-25-state-appended", listsFile,
		"for i := range n {", "for i := n - 1; i >= 0; i-- {"},
	{"the last wrapper is the outermost", "eino-6-tool-onion", exchangeFile,
		"x.onion(ctx, i, x.Run.In(i, x.Wrap), q, s.outlet())",
		"x.onion(ctx, i, func() (w []*hook.Member) {\n\t\t\t\tfor _, m := range x.Run.In(i, x.Wrap) {\n\t\t\t\t\tw = append([]*hook.Member{m}, w...)\n\t\t\t\t}\n\t\t\t\treturn w\n\t\t\t}(), q, s.outlet())"},
	{"after_agent runs from outside in", "own-outer-has-the-last-word", stateFile,
		"range r.Outward(contract.HookAfterAgent)", "range r.Inward(contract.HookAfterAgent)"},
	{"tool_messages asks the inner ring first", "own-tool-messages-outer-first", toolFile,
		"range r.Inward(contract.HookToolMessages)", "range r.Outward(contract.HookToolMessages)"},
	{"the message event precedes the rewrite", "eino-34-answer-changed", agentRun,
		"\ts.Messages = messages\n\tlast, ok := s.Messages.Last()\n\tif !ok {\n\t\treturn \"\", &abi.Error{Code: abi.CodeInvalid, Message: \"after_model_rewrite_state left no messages\"}\n\t}\n\tr.emitMessage(response.ID)\n",
		"\tr.emitMessage(response.ID)\n\ts.Messages = messages\n\tlast, ok := s.Messages.Last()\n\tif !ok {\n\t\treturn \"\", &abi.Error{Code: abi.CodeInvalid, Message: \"after_model_rewrite_state left no messages\"}\n\t}\n"},
	{"results are recorded as they come", "eino-51-order-of-results", agentTools,
		"defer func() { <-slots }()\n\t\t\tendings[i] = r.runCall(ctx, &calls[i])\n",
		"\t\t\tdefer func() { <-slots }()\n\t\t\tif endings[i] = r.runCall(ctx, &calls[i]); calls[i].Result != nil {\n\t\t\t\tr.mu.Lock()\n\t\t\t\tr.state.Messages = r.state.Messages.Append(calls[i].Messages...)\n\t\t\t\tcalls[i].Messages = nil\n\t\t\t\tr.mu.Unlock()\n\t\t\t}\n"},

	// Persistence of changes.
	{"a failed state pipeline is committed", "eino-26-state-commits-whole", agentRun,
		"\td, err := r.chain.BeforeModelRewriteState(ctx, r.draft())\n\tif err != nil {\n\t\treturn \"\", err\n\t}\n\ts.Messages, s.Active = d.Messages, d.Active\n",
		"\td, err := r.chain.BeforeModelRewriteState(ctx, r.draft())\n\ts.Messages, s.Active = d.Messages, d.Active\n\tif err != nil {\n\t\treturn \"\", err\n\t}\n"},
	{"changes of before_model persist", "trpc-A31-request-not-kept", agentModel,
		"\tr.state.Offered = toolNames(q.Tools)\n", "\tr.state.Offered, r.state.Messages = toolNames(q.Tools), q.Messages\n"},
	{"run-local values of a faulting hook are committed", "own-local-dropped", invokeFile,
		"\t\treturn r.fault(c, ending.StageHook, err)\n", "\t\t_ = c.locals.Commit()\n\t\treturn r.fault(c, ending.StageHook, err)\n"},
	{"results of siblings are lost when a call ends the run", "trpc-A41-before-tool-stops", agentTools,
		"\tr.recordResults()\n\treturn runlog.PhaseRound, err",
		"\tif err != nil {\n\t\treturn runlog.PhaseRound, err\n\t}\n\tr.recordResults()\n\treturn runlog.PhaseRound, nil"},
	{
		"open calls are not answered at the end",
		"own-stop-is-not-caught",
		agentFinish,
		"\tr.repair(whyNotRun(&e, err))\n",
		"\t_ = whyNotRun\n",
	},
	{"results are not recorded in the order of the calls after a fault", "own-results-in-call-order", pairsFile,
		"if !slices.ContainsFunc(results, func(i int) bool { return i == 0 || i >= r.end }) {", "if true {"},
	{"the reason of a stop is not in the results", "trpc-A59-gate-stops-in-a-round", agentFinish,
		"return safetext.Clip(stop.Error(), maxWhy)", "_ = stop\n\t\treturn endedBefore"},
	{"after_tools may leave a call without a result", "own-after-tools-without-a-result", stateFile,
		"\t\t\t\terr = message.CheckResults(messages, edited)\n", "\t\t\t\t_ = message.CheckResults\n"},
	{"late results are not moved", "own-late-result", pairsFile,
		"current = nil\n", "current = nil\n\t\t\tclear(byID)\n"},
	{"orphans are removed although the agent keeps them", "own-orphan-result-kept", agentRepair,
		"if !f.run.agent.KeepOrphanResults {", "if true {"},
	{"requests that modules changed are not repaired", "own-request-repaired", agentModel,
		"\tq.Messages = r.repairRequest(q.Messages)\n", "\t_ = r.repairRequest\n"},

	// Arguments.
	{"tools receive other arguments than the gates judged", "eino-45-arguments-rewritten", agentTools,
		"\t\tres, err = t.Call(ctx, call)\n", "\t\tcall.Arguments = `{\"replaced\":true}`\n\t\tres, err = t.Call(ctx, call)\n"},
	{"tools receive no arguments", "trpc-A30-call-in-pieces", agentTools,
		"\t\tres, err = t.Call(ctx, call)\n", "\t\tcall.Arguments = `{}`\n\t\tres, err = t.Call(ctx, call)\n"},

	// Gates.
	{"gates judge arguments before they are rewritten", "trpc-A36-arguments-seen-by-all", toolFile,
		"\t\tjudged, err := k.run.gate(ctx, k.call, q)\n",
		"\t\tasked := q\n\t\tif a, _ := k.run.Record.Decision(q, k.call.Tool.Owner); a == nil {\n\t\t\tasked = k.call.Call\n\t\t}\n\t\tjudged, err := k.run.gate(ctx, k.call, asked)\n"},
	{"a gate is not asked again for arguments it has seen", "own-gates-for-the-same-arguments", invokeFile,
		"\tc.key = r.Record.NextKey(string(c.Hook), c.member.Name, cmp.Or(c.scope, c.run.Scope))\n",
		"\tif c.key = r.Record.NextKey(string(c.Hook), c.member.Name, cmp.Or(c.scope, c.run.Scope)); c.Hook == contract.HookGateTool {\n\t\tc.key = c.key[:len(c.key)-len(\"#1\")]\n\t}\n"},
	{"asking is stricter than denying", "own-deny-beats-ask", gateFile,
		"abi.DecideAsk: 1, abi.DecideDeny: 2", "abi.DecideAsk: 2, abi.DecideDeny: 1"},
	{"what a gate allows is not reported", "own-decision-of-each-gate", gateFile,
		"\treturn cmp.Or(h.report(ctx, c, out.Decision, abi.Decision{",
		"\tif out.Decision == abi.DecideAllow {\n\t\treturn err\n\t}\n\treturn cmp.Or(h.report(ctx, c, out.Decision, abi.Decision{"},
	{"a gate that faults allows", "own-faulting-gate", gateFile,
		"\tcase v.Faulted:\n\t\tout = abi.GateToolAnswer{Decision: abi.DecideDeny,",
		"\tcase v.Faulted:\n\t\tout = abi.GateToolAnswer{Decision: abi.DecideAllow,"},
	{"a yes is good for any arguments", "own-approval-of-one-call", recordFile,
		" && a.Arguments == call.Arguments {", " {"},

	// Conditions of entries.
	{"a gate judges tools that its conditions exclude", "own-when-tool", gateFile,
		"return m.InToolCall(q.Name) })", "return true })"},
	{"before_model ignores the conditions", "own-when-model", exchangeFile,
		"range x.Run.In(i, x.Before) {\n\t\tif !x.Kind.Applies(m, q) {", "range x.Run.In(i, x.Before) {\n\t\tif false {"},
	{"wrappers ignore the conditions", "own-when-model", wrappingFile,
		"for len(wrappers) > 0 && !x.Kind.Applies(wrappers[0], q) {", "for false {"},
	{"an agent is matched by the name of another", "own-when-run", transferFile,
		"Agent: a.Name, Metadata", "Agent: s.Agent, Metadata"},

	// The settings of a run.
	{"a tenant raises a limit", "own-start-limits", "internal/chain/limits.go",
		"case now > 0 && n > now && !raise:", "case now > n+n && !raise:"},
	{"before_agent sets the model without a grant", "own-start-model-not-granted", "internal/module/invoke/own.go",
		"case a.Model != \"\" && !inv.Grants.SetModel:", "case false:"},
	{"an agent has the model of the one before", "own-start-limits-of-an-operator", transferFile,
		"s.Model, s.InstructionLabels = nil, nil", "s.InstructionLabels = nil"},
	{"the model of before_agent is forgotten", "own-start-model", "internal/agent/run.go",
		"s.Model = &runlog.Model{", "_ = &runlog.Model{"},

	// Labels.
	{"a summary has no labels of what it replaces", "own-labels-summary", editFile,
		"JoinLabels(e.gone, []string{EntryLabel(e.Entry)}), given)", "[]string{EntryLabel(e.Entry)}, given)"},
	{"a message with an old id has no labels of what is removed", "own-labels-summary", editFile,
		"added := JoinLabels(e.gone, []string{EntryLabel(e.Entry)})", "added := []string{EntryLabel(e.Entry)}"},
	{"every module can remove labels", "own-labels-set-by-a-module", editFile,
		"if !e.Trusted || given == nil {", "if given == nil {"},
	{"a wrapper's answer has no labels of what it replaces", "own-labels-of-results", "internal/chain/exchange/source.go",
		"w.x.changedBy(w.m.Name, w.seen...)", "w.x.changedBy(w.m.Name)"},
	{"what a sub-agent has read is forgotten", "own-labels-of-a-child", "internal/agent/subagent.go",
		"labels = message.JoinLabels(labels, message.Labels(&m))", "_ = m"},

	// Processing of answers.
	{"no after hooks on a short-circuit", "own-short-circuit-passes-the-ring", exchangeFile,
		"\tshort := rep.Res != nil || rep.Err != nil\n",
		"\tshort := rep.Res != nil || rep.Err != nil\n\tif short {\n\t\treturn rep, nil\n\t}\n"},
	{"no on_chunk for whole answers", "own-on-chunk-of-whole-answers", exchangeFile,
		"passed, err = s.filter(ctx, chunks, true)", "passed = chunks"},
	{"pieces of a stream pass no on_chunk", "ailoop-B3-chunk-changed", streamFile,
		"passed, err := s.filter(ctx, chunks, final)", "passed, err := chunks, error(nil)"},
	{"a message does not say that it replaces what was streamed", "eino-34-answer-changed", agentRun,
		"Replaced: s.Streamed != nil && ", "Replaced: false && "},
	{"again has no end", "own-again-three-times", exchangeFile,
		"case retry != nil && again >= contract.MaxAgain:", "case retry != nil && again >= 100:"},
	{"the last of several errors is reported", "trpc-A5-continue-on-error", exchangeFile,
		"case v.Failed != nil && failed.Err == nil:", "case v.Failed != nil:"},

	// Endings, faults, pauses.
	{"a wrapper catches a stop", "own-stop-is-not-caught", wrappingFile,
		"\t\tcase err != nil:\n\t\t\treturn nil, err\n\t\tcase rep.Err != nil:",
		"\t\tcase err != nil:\n\t\t\treturn nil, ending.AsError(err, abi.CodeTool)\n\t\tcase rep.Err != nil:"},
	{"a fault ends the run though it is to be skipped", "own-skip-state-hook", invokeFile,
		"ends := !never && c.member.OnFault != Skip", "ends := !never"},
	{"a skipped wrapper's call is made again", "own-skip-after-next", wrappingFile,
		"\tcase v.Faulted && w.lastReply.Res != nil:\n\t\treturn w.lastReply, nil\n",
		"\tcase v.Faulted && w.lastReply.Res != nil:\n\t\treturn w.x.onion(w.ctx, w.ring, w.inner, w.q, nil)\n"},
	{"after_agent is not called after an error", "eino-60-after-agent-of-a-failed-run", stateFile,
		"func (r *Run) AfterAgent(ctx context.Context, e End) *abi.Message {\n",
		"func (r *Run) AfterAgent(ctx context.Context, e End) *abi.Message {\n\tif e.Err != nil {\n\t\treturn e.Final\n\t}\n"},
	{"what a wrapper sent is not its answer", "own-stream-framed", wrappingFile,
		"if w.sender.Sent == 0 || w.sender.Failed != nil {", "if w.sender.Sent >= 0 || w.sender.Failed != nil {"},
	{"the stream of a skipped wrapper is cut", "own-stream-fault-skipped", wrappingFile,
		"\t\tending = w.drain()\n", "\t\tending = w.close()\n"},
	{"what a wrapper sends goes past the one outside", "own-stream-outer-reads-inner", wrappingFile,
		"\tt := &tap{feed: feed}\n\tvar out outlet\n\tif w.out != nil {\n\t\tout = t\n\t}\n",
		"\tt := &tap{feed: feed}\n\tvar out outlet\n\tif w.out != nil {\n\t\tout = w.pass\n\t}\n"},
	{"a tool that has run is run again after a pause", "own-tool-once", toolFile,
		"record.LoadAs[abi.Result](rec, key); ok {", "record.LoadAs[abi.Result](rec, key); ok && known == nil {"},
	{"events are repeated after a pause", "own-events-once", recordFile,
		"\tif nth <= 0 {\n\t\treturn true\n", "\tif nth <= 0 {\n\t\treturn false\n"},
	{"a tool that returns directly leaves its siblings out", "own-return-directly-with-siblings", agentTools,
		"\t\tif calls[i].Result != nil {\n\t\t\tcontinue\n\t\t}\n\t\tif full.Load() {\n",
		"\t\tif calls[i].Result != nil || i > 0 && slices.Contains(r.state.ReturnDirectly, calls[0].Call.Name) {\n\t\t\tcontinue\n\t\t}\n\t\tif full.Load() {\n"},
	{"a tool that returns directly ends the run with its error", "own-return-directly-fails", agentTools,
		"if c.Result.IsError || !slices.Contains(", "if !slices.Contains("},

	// Limits.
	{"a module's tool calls bypass the limits", "own-tool-calls-of-a-module-end-the-run", nestedFile,
		"if !r.Record.HasNested(key) {", "if false {"},
	{"a run that is a tool takes the other's last model call", "own-child-within-the-limits", agentLimits,
		"\t\t\tlimit--\n", "\t\t\tlimit += 0\n"},
}
