package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
)

// A SeriesQuery selects counters of runs over time. The zero value selects the counters of all runs
// in the last 24 hours.
type SeriesQuery struct {
	Bucket   string    // "hour" or "day"; the default is "hour"
	From, To time.Time // the default is the last 24 buckets
	By       string    // "all", "agent", "version", "module" or "model"; the default is "all"
	Agent    string
	Version  int64  // version of Agent; 0 selects all
	Module   string // digest
	Model    string // needs By: "model"
	Groups   int    // maximum number of groups; the default is the server's
}

// Series returns counters of a tenant's finished runs over time. An empty tenant is the caller's own.
func (c *Client) Series(ctx context.Context, tenant string, s *SeriesQuery) (*api.Series, error) {
	q := url.Values{}
	for name, value := range map[string]string{
		"bucket": s.Bucket, "by": s.By, "agent": s.Agent, "module": s.Module, "model": s.Model,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"from": s.From, "to": s.To} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	for name, n := range map[string]int64{"version": s.Version, "groups": int64(s.Groups)} {
		if n != 0 {
			q.Set(name, strconv.FormatInt(n, 10))
		}
	}
	at := "/v1/series"
	if tenant != "" {
		at = path("/v1/tenants/%s/series", tenant)
	}
	out := &api.Series{}
	return out, c.get(ctx, at, q, out)
}
