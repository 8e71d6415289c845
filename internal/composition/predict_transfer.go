package composition

import (
	"encoding/json"
	"slices"
)

// askTransfer simulates the tool that transfers the conversation. Only its first call in a round
// succeeds.
func (x *exchange) askTransfer(q request) answer {
	var in struct{ Agent string }
	_ = json.Unmarshal([]byte(q.arguments), &in) // callers have checked that the arguments are valid JSON
	to := peerName
	if x.c == x.root.Peer {
		to = rootName
	}
	switch {
	case in.Agent != to:
		return answer{isError: true, text: unknownAgent, source: "tool"}
	case slices.ContainsFunc(x.calling[:x.nth], func(c toolCall) bool { return c.name == transfer }):
		return answer{isError: true, text: oneTransfer, source: "tool"}
	}
	x.transfers[x.nth] = to
	return answer{text: "goes to " + to, source: "tool"}
}

// transferTo ends the current agent's turn and starts the turn of the named agent.
func (p *prediction) transferTo(to string) {
	p.afterAgent(&ended{reason: "transfer"})
	if to == peerName {
		p.say("transfer %s to %s", rootName, peerName)
		p.equip(p.root.Peer)
	} else {
		p.say("transfer %s to %s", peerName, rootName)
		p.equip(p.root)
	}
	p.beforeAgent()
}
