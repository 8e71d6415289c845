package tenants

import (
	"context"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/gateway/price"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Series serves the counters of tenants' runs over time.
type Series struct {
	Store    store.Store
	Now      func() time.Time
	Currency string // of costs, such as USD; empty if nothing has a cost
}

const aboutSeries = `Runs, latency, tokens, cost, faults and denials of finished runs, by the hour or day (UTC) in
which the runs finished. Hours are stored for 15 days and days for 400 days. In each bucket, 200 agent versions, modules
and models are counted by themselves, and further ones together, with an empty name.`

type (
	// SeriesInput is embedded in the inputs of the routes that show series.
	SeriesInput struct {
		Bucket  string    `query:"bucket" enum:"hour,day" default:"hour" doc:"The length of a bucket."`
		From    time.Time `query:"from" doc:"A time in the first bucket. Default: 24 buckets before to."`
		To      time.Time `query:"to" doc:"Buckets that start before this time are included. Default: now."`
		By      string    `query:"by" enum:"all,agent,version,module,model" default:"all" doc:"Group by agent, by agent and version, by module or by model."`
		Agent   string    `query:"agent" maxLength:"63" doc:"Only runs of this agent."`
		Version int64     `query:"version" minimum:"1" doc:"Only runs of this version of the agent."`
		Module  string    `query:"module" pattern:"^(sha256:)?[0-9a-f]{64}$" doc:"Only runs that use the module with this digest."`
		Model   string    `query:"model" maxLength:"200" doc:"Only tokens of this model. Needs by=model."`
		Groups  int       `query:"groups" default:"20" minimum:"1" maximum:"50" doc:"Maximum number of groups."`
	}
	tenantSeriesInput struct {
		TenantPath
		SeriesInput
	}
	seriesOutput struct{ Body api.Series }
)

// Routes registers the endpoints that show series.
func (s *Series) Routes(rt *httpapi.Router) {
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-series",
		Method:  "GET",
		Path:    "/v1/series",
		Scope:   httpapi.UsageRead,
		Tag:     "usage",
		Summary: "Show counters of your tenant's runs over time",
		About:   aboutSeries,
	}, func(ctx context.Context, c *httpapi.Caller, in *SeriesInput) (*seriesOutput, error) {
		return s.get(ctx, c.Tenant, in)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-tenant-series",
		Method:  "GET",
		Path:    "/v1/tenants/{tenant}/series",
		Scope:   httpapi.OperatorScope,
		Tag:     "usage",
		Summary: "Show counters of a tenant's runs over time",
		About:   aboutSeries,
	}, func(ctx context.Context, _ *httpapi.Caller, in *tenantSeriesInput) (*seriesOutput, error) {
		if _, err := s.Store.TenantInfo(ctx, in.Tenant); err != nil {
			return nil, err
		}
		return s.get(ctx, s.Store.Tenant(in.Tenant), &in.SeriesInput)
	})
}

// query returns the store's query. It fails with a [*httpapi.Problem] if parameters are invalid.
func (in *SeriesInput) query(now time.Time) (*store.SeriesQuery, error) {
	q := &store.SeriesQuery{
		Kind:      store.SeriesAgents,
		Period:    store.SeriesPeriod(in.Bucket),
		From:      in.From,
		To:        in.To,
		ByAgent:   in.By == "agent",
		ByVersion: in.By == "version",
		ByName:    in.By == "module" || in.By == "model",
		Agent:     in.Agent,
		Version:   in.Version,
		Name:      httpapi.TrimDigest(in.Module),
		Groups:    in.Groups,
	}
	switch {
	case in.Model != "" && in.By != "model":
		return nil, httpapi.NewParameterProblem("model", "model needs by=model")
	case in.Module != "" && in.By == "model":
		return nil, httpapi.NewParameterProblem("module", "tokens of models are not counted by module")
	case in.Version != 0 && in.Agent == "":
		return nil, httpapi.NewParameterProblem("version", "version needs agent")
	case in.By == "model":
		q.Kind, q.Name = store.SeriesModels, in.Model
	case in.By == "module" || in.Module != "":
		q.Kind = store.SeriesModules
	}
	length := q.Period.Duration()
	if q.To.IsZero() {
		q.To = now
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-24 * length)
	}
	q.From = q.From.UTC().Truncate(length)
	switch points := q.To.Sub(q.From) / length; {
	case !q.From.Before(q.To):
		return nil, httpapi.NewParameterProblem("from", "from is not before to")
	case points > store.MaxSeriesPoints:
		return nil, httpapi.NewParameterProblem("from", fmt.Sprintf("the range has %d buckets; at most %d are allowed",
			points, store.MaxSeriesPoints))
	}
	return q, nil
}

func (s *Series) get(ctx context.Context, t *store.Tenant, in *SeriesInput) (*seriesOutput, error) {
	q, err := in.query(s.Now())
	if err != nil {
		return nil, err
	}
	groups, more, err := t.Series(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &seriesOutput{api.Series{
		Bucket:     in.Bucket,
		From:       q.From,
		To:         q.To.UTC(),
		By:         in.By,
		Currency:   s.Currency,
		Groups:     make([]api.SeriesGroup, len(groups)),
		MoreGroups: more,
	}}
	for i := range groups {
		out.Body.Groups[i] = showSeries(&groups[i], q.Kind)
	}
	return out, nil
}

func showSeries(g *store.Series, kind store.SeriesKind) api.SeriesGroup {
	shown := api.SeriesGroup{
		Agent:   g.Agent,
		Version: g.Version,
		Total:   showPoint(&g.Total),
		Points:  make([]api.SeriesPoint, len(g.Points)),
	}
	switch {
	case g.Name == "":
	case kind == store.SeriesModels:
		shown.Model = g.Name
	default:
		shown.Module = httpapi.DigestPrefix + g.Name
	}
	for i := range g.Points {
		shown.Points[i] = api.SeriesPoint{Start: g.Points[i].Start, SeriesCounts: showPoint(&g.Points[i])}
	}
	return shown
}

func showPoint(p *store.SeriesPoint) api.SeriesCounts {
	ms := func(d time.Duration) float64 {
		return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
	}
	return api.SeriesCounts{
		Runs:             p.Runs,
		Failed:           p.Failed,
		Canceled:         p.Canceled,
		LatencyP50MS:     ms(p.Latency(0.5)),
		LatencyP95MS:     ms(p.Latency(0.95)),
		PromptTokens:     p.PromptTokens,
		CompletionTokens: p.CompletionTokens,
		Cost:             float64(p.CostNano) / price.Nano,
		Faults:           p.Faults,
		Denials:          p.Denials,
		Calls:            p.Calls,
		HookMS:           p.HookMS,
	}
}
