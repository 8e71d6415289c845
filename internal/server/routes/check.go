package routes

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/policy"
	"github.com/agent-runner/agent-runner/internal/store"
)

var gatewayType = reflect.TypeFor[api.Gateway]()

// fileName is the name of a tenant's file in errors.
const fileName = "gateway.yaml"

// Limits of a tenant's gateway.
const (
	maxRoutes  = 100
	maxTimeout = time.Hour
)

// routeName matches the names of routes, which usage and logs show.
var routeName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// check parses a gateway.yaml, and finds and configures its modules. It rejects a file that is not
// valid or that the tenant's policy does not allow.
func (s *Service) check(ctx context.Context, c *httpapi.Caller, body []byte) (*agents.Checked, error) {
	policy, err := policy.Of(c.Info)
	if err != nil {
		return nil, err
	}
	var g *agentfile.Gateway
	var invalid error
	if err := c.Parse(ctx, s.o.Admission, len(body), func() error {
		g, invalid = agentfile.ParseGateway(fileName, body)
		return nil
	}); err != nil {
		return nil, err
	}
	if err = invalid; err == nil {
		err = checkFile(g, c.Key.Tenant == store.Operator, &policy)
	}
	if err != nil {
		return nil, agents.FileProblem(err)
	}
	out := &agents.Checked{}
	for i := range g.Routes {
		if r := &g.Routes[i]; r.APIKeyEnv == "" {
			out.Warnings = append(out.Warnings,
				"route "+r.Name+": its upstream gets no credentials; store its key as a secret, and name it in api_key_env")
		}
	}
	var wrong error
	walk(g, func(f *agentfile.File, at, place string, m *agentfile.Middleware) {
		if wrong != nil {
			return
		}
		digest, err := s.o.Agents.CheckEntry(ctx, c, &policy, f, at, m)
		if err != nil {
			wrong = err
			return
		}
		out.Add(place, m, digest)
	})
	return out, wrong
}

// fields and routeFields list the fields that a gateway.yaml and its routes may set on a server.
// instead has advice for the errors about other fields.
var (
	fields      = []string{"routes", "max_requests", "timeout"}
	routeFields = []string{
		"name", "protocol", "models", "upstream", "upstream_protocol", "api_key_env", "model", "hold", "secrets",
		"middlewares", "rings",
	}
	instead = map[string]string{
		"listen": "the routes are served at the address of this server",
		"keys":   "clients send keys of this server with the scope runs:write",
	}
)

// checkFile rejects fields that have no effect on a server, and routes that the tenant's policy does
// not allow. No policy applies to the operator.
func checkFile(g *agentfile.Gateway, operator bool, p *policy.Policy) error {
	if err := checkFields(g, "", *g, fields); err != nil {
		return err
	}
	switch {
	case len(g.Routes) > maxRoutes:
		return g.ErrorAt("routes", fmt.Errorf("routes: a gateway on a server has at most %d routes", maxRoutes))
	case time.Duration(g.Timeout) > maxTimeout:
		return g.ErrorAt("timeout", fmt.Errorf("timeout: want at most %v on a server", maxTimeout))
	case g.MaxRequests > maxRequests:
		return g.ErrorAt("max_requests", fmt.Errorf("max_requests: want at most %d on a server", maxRequests))
	}
	names := map[string]bool{}
	for i := range g.Routes {
		r, at := &g.Routes[i], fmt.Sprintf("routes[%d]", i)
		if err := checkFields(g, at+".", *r, routeFields); err != nil {
			return err
		}
		switch {
		case !routeName.MatchString(r.Name):
			return g.ErrorAt(at+".name", errors.New("name: want up to 64 letters, digits, dots, dashes and underscores"))
		case names[r.Name]:
			return g.ErrorAt(at, fmt.Errorf("two routes are named %q; set another name", r.Name))
		case !operator && len(r.Rings.Outer)+len(r.Rings.Inner) > 0:
			return g.ErrorAt(at+".rings",
				errors.New("rings: only the operator can set rings; move the modules to middlewares"))
		}
		names[r.Name] = true
		if err := agentfile.CheckBounds(r.Chain()); err != nil {
			return err
		}
		if !operator {
			if err := checkRoute(g, at, r, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkFields returns an error if a field of the struct in the parameter of is set and its JSON key is
// not in allowed. at is the struct's location in the file: empty, or followed by a dot.
func checkFields(g *agentfile.Gateway, at string, of any, allowed []string) error {
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" || v.Field(i).IsZero() || slices.Contains(allowed, name) {
			continue
		}
		why, known := instead[name]
		if !known {
			why = "it has no effect on a server"
		}
		return g.ErrorAt(at+name, fmt.Errorf("%s: remove it; %s", name, why))
	}
	return nil
}

// checkRoute rejects a route if the tenant's policy does not allow its upstream or its model. at is
// the route's location in the file.
func checkRoute(g *agentfile.Gateway, at string, r *agentfile.GatewayRoute, p *policy.Policy) error {
	u, err := url.Parse(string(r.Upstream))
	if err != nil {
		return g.ErrorAt(at+".upstream", err)
	}
	if len(p.Upstreams) > 0 && !policy.CoversHost(p.Upstreams, policy.HostPort(u)) {
		return g.ErrorAt(at+".upstream",
			fmt.Errorf("upstream: the operator's policy does not allow this tenant to use %s; allowed are %s%s",
				u.Host, strings.Join(p.Upstreams, ", "), policy.PortHint(policy.HostPort(u))))
	}
	if r.Model != "" && len(p.Models) > 0 && !hook.Matches(p.Models, r.Model) {
		return g.ErrorAt(at+".model",
			fmt.Errorf("model: the operator's policy does not allow this tenant to use %q; allowed are %s",
				r.Model, strings.Join(p.Models, ", ")))
	}
	return nil
}
