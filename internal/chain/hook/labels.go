package hook

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/message"
)

// maxRemovedLabels is the maximum number of messages that a labels event lists.
const maxRemovedLabels = 64

// Edit applies a patch of the run's messages from the hook's answer to list l. See [message.Edit].
func (c *Control) Edit(l *message.List, p *abi.ListPatch, newID func() string) (*message.List, error) {
	by := &message.Editor{Entry: c.member.Name, NewID: newID, Trusted: c.member.setsLabels()}
	out, err := message.Edit(l, p, by)
	c.edited = by
	return out, err
}

// setsLabels reports whether the member may remove labels. Members in the tenant's ring may not.
func (m *Member) setsLabels() bool { return m.desc.SetLabels && m.Ring != Tenant }

// ReadsLabels reports whether the called entry receives labels.
func (c *Control) ReadsLabels() bool { return c.member.desc.Labels }

// Show returns a message as the called entry may see it, with labels if the entry receives labels.
func (c *Control) Show(m *abi.Message) abi.Message { return c.member.Show(m) }

// reportLabels sends the event about the labels that the hook's answer removed. It sends none if
// the answer removed none.
func (c *Call) reportLabels() {
	if c.edited == nil || len(c.edited.Removed) == 0 {
		return
	}
	removed := c.edited.Removed
	data := struct {
		Removed []message.RemovedLabels `json:"removed"`
		Omitted int                     `json:"omitted,omitempty"`
	}{Removed: removed}
	if n := len(removed) - maxRemovedLabels; n > 0 {
		data.Removed, data.Omitted = removed[:maxRemovedLabels], n
	}
	b, err := abijson.Marshal(data)
	if err != nil {
		return // encoding cannot fail for this type
	}
	c.send(abi.Event{Type: abi.EventLabels, Entry: c.member.Name, Hook: c.Hook, Digest: c.member.desc.Digest, Data: b})
}
