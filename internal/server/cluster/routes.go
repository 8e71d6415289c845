package cluster

import (
	"context"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

type nodesOutput struct {
	Body struct {
		Nodes []api.Node `json:"nodes" nullable:"false" doc:"Ordered by machine and name."`
	}
}

// Routes registers the endpoint that lists the servers. m may be nil, for a single server.
func (m *Members) Routes(rt *httpapi.Router) {
	httpapi.Register(rt, httpapi.Route{
		ID:      "cluster-status",
		Method:  "GET",
		Path:    "/v1/cluster",
		Scope:   httpapi.OperatorScope,
		Tag:     "cluster",
		Control: true,
		Summary: "List the servers of the database",
		About:   "Lists the servers whose heartbeats arrive here. Empty if the database is not shared. A server that ended without a word is listed as silent for up to a minute.",
	}, m.list)
}

func (m *Members) list(context.Context, *httpapi.Caller, *struct{}) (*nodesOutput, error) {
	out := &nodesOutput{}
	out.Body.Nodes = []api.Node{}
	if m == nil {
		return out, nil
	}
	now, self := m.o.Now(), m.o.Self().Owner
	for _, member := range m.List() {
		out.Body.Nodes = append(out.Body.Nodes, api.Node{
			Owner:    member.Owner,
			Node:     member.Node,
			Version:  member.Version,
			Runs:     member.Runs,
			Draining: member.Draining,
			Silent:   member.Silent,
			Self:     member.Owner == self,
			SeenMS:   now.Sub(member.Seen).Milliseconds(),
		})
	}
	return out, nil
}
