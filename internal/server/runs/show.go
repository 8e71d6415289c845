package runs

import (
	"context"
	"encoding/json"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/gateway/price"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// showInterrupts returns the API's form of interrupts.
func showInterrupts(list []abi.Pending) (out []api.Interrupt) {
	for _, p := range list {
		i := api.Interrupt{
			ID:      p.ID,
			Agent:   p.Agent,
			Entry:   p.Entry,
			Hook:    string(p.Hook),
			Reason:  p.Reason,
			Payload: p.Payload,
			Client:  toolcall.IsClient(p),
		}
		if p.Call != nil {
			i.Call = &api.ToolCall{ID: p.Call.ID, Name: p.Call.Name, Arguments: p.Call.Arguments}
		}
		out = append(out, i)
	}
	return out
}

// Show returns the API's form of a run without its output and the operator's data.
func (r *Service) Show(info *journal.RunInfo) *api.Run { return r.showRun(info) }

// showRun returns the redacted API form of a run.
func (r *Service) showRun(info *journal.RunInfo) *api.Run {
	hide := NewRedactor(info.Modules)
	spec, _ := agents.SpecOf(info) // runs of the command have other specs
	shown := &api.Run{
		ID:           info.ID,
		Agent:        info.Agent,
		Version:      spec.Version,
		Rollout:      spec.Rollout,
		Arm:          string(spec.Arm),
		Title:        info.Title,
		Thread:       info.Thread,
		Subject:      info.Subject,
		Status:       string(info.Status),
		FinishReason: info.FinishReason,
		Step:         info.Step,
		Usage:        api.Tokens(info.Usage),
		Cost:         float64(info.CostNano) / price.Nano,
		Currency:     r.options.Currency,
		TookMS:       info.Active.Milliseconds(),
		Faults:       info.Faults,
		Denials:      info.Denials,
		JournalBytes: info.JournalBytes,
		Interrupts:   showInterrupts(hide.pending(info.Pending)),
		LastEvent:    info.LastSeq,
		Created:      info.Created.UTC(),
		Updated:      info.Updated.UTC(),
	}
	for _, s := range info.Stats {
		if !hide.Has(s.Agent, s.Entry) {
			shown.Fuel += s.Fuel
		}
	}
	for _, p := range info.Modules {
		if !hide.entries[p.Entry] {
			m := api.RunModule{Entry: p.Entry}
			if p.Digest != "" {
				m.Digest = httpapi.DigestPrefix + p.Digest
			}
			shown.Modules = append(shown.Modules, m)
		}
	}
	_ = json.Unmarshal(info.Metadata, &shown.Metadata) // empty if there is none
	return shown
}

// showDetails returns the redacted API form of a run. It includes the output or error of a finished
// run, and the reason why a run is quarantined.
func (r *Service) showDetails(ctx context.Context, c *httpapi.Caller, info *journal.RunInfo) (*api.Run, error) {
	shown := forCaller(c, r.showRun(info))
	if info.Status == journal.StatusQuarantined {
		e, err := r.store.EvidenceOf(ctx, info.ID)
		if e != nil {
			shown.Error = "quarantined: " + e.Reason + "; cancel the run, or ask the operator to release it"
		}
		return shown, err
	}
	if info.Status != journal.StatusFinished {
		return shown, nil
	}
	last, err := c.Tenant.RunEvents(ctx, info.ID, info.LastSeq-1, 1, 1)
	if err != nil || len(last) == 0 {
		return shown, err
	}
	hide := NewRedactor(info.Modules)
	e := hide.event(&last[0])
	if e.Message != nil {
		shown.Output = e.Message.Content.String()
	}
	switch {
	case c.Token != nil && e.Error != nil:
		shown.Error = userError(e).Message
	case c.Token != nil && e.FinishReason != abi.RunCanceled:
		shown.Error = userReason(e)
	case e.Error != nil:
		shown.Error = e.Error.Message
	case e.StoppedBy != "":
		shown.Error = "stopped by " + e.StoppedBy + prefixed(": ", e.Reason)
	case e.FinishReason == abi.RunCanceled:
		shown.Error = e.Reason // cause of the cancellation
	}
	shown.Output = string(hide.redactNames([]byte(shown.Output)))
	shown.Error = string(hide.redactNames([]byte(shown.Error)))
	return shown, nil
}

func prefixed(mark, text string) string {
	if text == "" {
		return ""
	}
	return mark + text
}
