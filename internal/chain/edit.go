package chain

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
)

// maxInsert is how many messages one answer may add.
const maxInsert = 10_000

// An Identity gives messages their ids.
type Identity interface {
	// NewID returns an id that no message of the run has had.
	NewID() string
}

// edit applies a module's patch to a list. Ids and origins are the host's: a
// module's are taken over only from a message that the same answer removed.
func (r *Run) edit(l *List, p *abi.ListPatch, entry string) (*List, error) {
	if p.IsZero() {
		return l, nil
	}
	if err := p.Check(l.Len()); err != nil {
		return nil, faultf("messages: %w", err)
	}
	splices := slices.Clone(p.Splice)
	if p.Whole {
		splices = []abi.Splice{wholeSplice(l, p.Replace)}
	}
	removed := map[string]*abi.Message{}
	added := 0
	for _, s := range splices {
		added += len(s.Insert)
		for _, it := range l.items[s.At : s.At+s.Remove] {
			removed[it.message.ID] = &it.message
		}
	}
	if added > maxInsert+l.Len() {
		return nil, faultf("messages: an answer may add %d messages", maxInsert)
	}
	for i := range splices {
		splices[i].Insert = slices.Clone(splices[i].Insert)
		for j := range splices[i].Insert {
			if err := checkCalls(&splices[i].Insert[j]); err != nil {
				return nil, err
			}
			r.own(&splices[i].Insert[j], removed, entry)
		}
	}
	if len(splices) == 0 {
		return l, nil
	}
	return l.splice(splices), nil
}

// wholeSplice is the one splice that turns l into messages: what both begin
// with stays.
func wholeSplice(l *List, messages []abi.Message) abi.Splice {
	same := 0
	for same < min(l.Len(), len(messages)) && messages[same].ID != "" &&
		messages[same].ID == l.items[same].message.ID && equalMessage(&messages[same], l.items[same]) {
		same++
	}
	return abi.Splice{At: same, Remove: l.Len() - same, Insert: messages[same:]}
}

func equalMessage(m *abi.Message, it *item) bool {
	b, err := abi.Marshal(m)
	return err == nil && string(b) == string(it.encoded())
}

// own gives a message of a module its id and origin. One that takes the place
// of a removed message keeps that one's; but not its origin if it says that
// somebody else is speaking.
func (r *Run) own(m *abi.Message, removed map[string]*abi.Message, entry string) {
	if was, ok := removed[m.ID]; ok && m.ID != "" {
		delete(removed, m.ID)
		m.Origin = was.Origin
		if m.Role != was.Role {
			m.Origin = abi.OriginModule + entry
		}
		return
	}
	m.ID, m.Origin = r.newID(), abi.OriginModule+entry
}

func (r *Run) newID() string {
	if ids, ok := r.host.(Identity); ok {
		return ids.NewID()
	}
	return ""
}

// editTools applies a module's patch to a list of tools. Names are unique for
// the whole run: one that another owner has, or had before it was removed, is
// not to be had. mayAdd says whether the patch may add tools at all.
func editTools(tools []abi.Tool, owners map[string]string, p *abi.ToolsPatch, entry string) ([]abi.Tool, error) {
	if err := checkToolCount(tools, p); err != nil {
		return nil, err
	}
	add, remove := p.Add, p.Remove
	out := slices.Clone(tools)
	if p.Whole {
		out = nil
		for _, t := range p.Replace {
			if i := toolIndex(tools, t.Name); i >= 0 {
				if err := checkTool(&t); err != nil {
					return nil, err
				}
				t.Owner, t.Idempotent = tools[i].Owner, tools[i].Idempotent
				if toolIndex(out, t.Name) >= 0 {
					return nil, faultf("tools: %q stands twice", t.Name)
				}
				out = append(out, t)
				continue
			}
			add = append(add, t)
		}
	}
	out = slices.DeleteFunc(out, func(t abi.Tool) bool { return slices.Contains(remove, t.Name) })
	for _, t := range add {
		if err := checkTool(&t); err != nil {
			return nil, err
		}
		if toolIndex(out, t.Name) >= 0 || toolIndex(tools, t.Name) >= 0 && !slices.Contains(remove, t.Name) {
			return nil, faultf("tools: %q exists already; choose another name", t.Name)
		}
		if owner, had := owners[t.Name]; had && owner != entry {
			return nil, faultf("tools: %q belongs to %s; choose another name", t.Name, owner)
		}
		t.Owner = entry
		out = append(out, t)
	}
	if len(out) > maxTools && len(out) > len(tools) {
		return nil, faultf("tools: %d tools; a run may have %d", len(out), maxTools)
	}
	return out, nil
}

// maxTools is how many tools a run may have where modules change them: models
// take far fewer, and every name is compared with every other.
const maxTools = 1024

// checkToolCount refuses a patch before anything is done with its lists.
func checkToolCount(tools []abi.Tool, p *abi.ToolsPatch) error {
	if most := maxTools + len(tools); len(p.Add) > most || len(p.Remove) > most || len(p.Replace) > most {
		return faultf("tools: an answer may name %d tools", most)
	}
	return nil
}

// checkTool refuses a tool that a model could not be told of.
func checkTool(t *abi.Tool) error {
	if err := t.Check(); err != nil {
		return faultf("tools: %w", err)
	}
	return nil
}

func toolIndex(tools []abi.Tool, name string) int {
	return slices.IndexFunc(tools, func(t abi.Tool) bool { return t.Name == name })
}

// checkActive refuses names of tools that are not there.
func checkActive(active []string, tools []abi.Tool) error {
	for i, name := range active {
		switch {
		case toolIndex(tools, name) < 0:
			return faultf("active: there is no tool %q", name)
		case slices.Contains(active[:i], name): // so there are no more of them than tools
			return faultf("active: tool %q stands twice", name)
		}
	}
	return nil
}

// maxCalls is how many calls of tools a message of a module may make; chunks
// cannot say more either.
const maxCalls = 1024

// checkCalls refuses a message that would keep the host busy for long.
func checkCalls(m *abi.Message) error {
	if len(m.ToolCalls) > maxCalls {
		return faultf("a message with %d tool calls; at most %d are allowed", len(m.ToolCalls), maxCalls)
	}
	return nil
}

// checkResult refuses a tool result that cannot be recorded.
func checkResult(res *abi.Result) error {
	if res == nil {
		return nil
	}
	if len(res.Extra) > 0 && res.Extra[0] != '{' && string(res.Extra) != "null" {
		return faultf("result: extra must be an object")
	}
	if err := res.Content.Check(); err != nil {
		return faultf("result: %w", err)
	}
	return nil
}

// saysNothing reports whether a message is one that a module left out.
func saysNothing(m *abi.Message) bool {
	return m.Role == "" && m.Content.IsNull() && m.ReasoningContent == "" && len(m.ToolCalls) == 0 && len(m.Unknown) == 0
}

// checkResponse refuses a response that is not an assistant's message, and
// gives it the id and origin of the host.
func (r *Run) checkResponse(res *abi.Response, entry string, inner *abi.Response) error {
	if res == nil {
		return nil
	}
	if saysNothing(&res.Message) {
		return faultf("response: it has no message; an answer that is to be empty has one with the role assistant")
	}
	if res.Message.Role == "" {
		res.Message.Role = abi.RoleAssistant
	}
	if err := res.Message.Check(); err != nil {
		return faultf("response: %w", err)
	}
	if err := checkCalls(&res.Message); err != nil {
		return err
	}
	if len(res.FinishReason) > abi.MaxName {
		return faultf("response: a finish_reason of %d bytes; at most %d are allowed", len(res.FinishReason), abi.MaxName)
	}
	if u := res.Usage; u != nil && (u.PromptTokens < 0 || u.CompletionTokens < 0 || u.TotalTokens < 0) {
		return faultf("response: usage is negative")
	}
	if res.Message.Role != abi.RoleAssistant {
		return faultf("response: want an assistant's message, got a %s's", res.Message.Role)
	}
	res.Message.ID, res.Message.Origin = "", abi.OriginModule+entry
	if inner != nil {
		res.Message.ID = inner.Message.ID
		if sameMessage(&res.Message, &inner.Message) {
			res.Message.Origin = inner.Message.Origin
		}
		if res.Usage == nil {
			res.Usage = inner.Usage
		}
	}
	return nil
}
