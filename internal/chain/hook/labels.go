package hook

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/message"
)

// maxRemovedLabels is the maximum number of messages that a labels event lists.
const maxRemovedLabels = 64

// Edit applies a patch of the run's messages that the hook answered with. See [message.Edit].
func (c *Control) Edit(l *message.List, p *abi.ListPatch, newID func() string) (*message.List, error) {
	by := &message.Editor{Entry: c.member.Name, NewID: newID, Trusted: c.member.setsLabels()}
	out, err := message.Edit(l, p, by)
	c.unlabelled = by.Removed
	return out, err
}

// setsLabels reports whether the member may remove labels.
func (m *Member) setsLabels() bool { return m.desc.SetLabels && m.Ring != Tenant }

// ReadsLabels reports whether the entry that is called reads labels.
func (c *Control) ReadsLabels() bool { return c.member.desc.Labels }

// Show returns a message for the entry that is called, with its labels if the entry reads them.
func (c *Control) Show(m *abi.Message) abi.Message { return c.member.Show(m) }

// reportLabels sends the event of the labels that the hook's answer removed, if any.
func (c *Call) reportLabels() {
	removed := c.unlabelled
	if len(removed) == 0 {
		return
	}
	data := struct {
		Removed []message.RemovedLabels `json:"removed"`
		Omitted int                     `json:"omitted,omitempty"`
	}{Removed: removed}
	if n := len(removed) - maxRemovedLabels; n > 0 {
		data.Removed, data.Omitted = removed[:maxRemovedLabels], n
	}
	b, err := abijson.Marshal(data)
	if err != nil {
		return // a plain value always has JSON
	}
	c.send(abi.Event{Type: abi.EventLabels, Entry: c.member.Name, Hook: c.Hook, Digest: c.member.desc.Digest, Data: b})
}
