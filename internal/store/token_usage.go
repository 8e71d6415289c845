package store

import (
	"context"
	"fmt"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// Names of the quotas of tokens in errors.
const (
	quotaTokenRuns   = "token_runs"
	quotaTokenTokens = "token_tokens"
	quotaTokenCost   = "token_cost"
)

// adviceNewToken is the advice of errors about quotas of tokens.
const adviceNewToken = "get a new token"

// startWithToken counts a run that a token starts. It fails with [ErrNoToken] if the token was
// deleted, and with a [*QuotaError] if the token's quotas do not allow a run. It does nothing if id
// is empty. The caller holds the lock of the tenant's row, so that no other run begins at the same
// time.
func startWithToken(t scoped, id string) error {
	if id == "" {
		return nil
	}
	if err := checkToken(t, id, 1); err != nil {
		return err
	}
	_, err := t.Exec(`UPDATE tokens SET runs = runs + 1 WHERE tenant = $1 AND id = $2`, id)
	return err
}

// checkToken fails as startWithToken does. runs is the number of runs that the token's quota must
// allow. checkToken also fails if the model tokens or the cost of the token are used up.
func checkToken(t scoped, id string, runs int64) error {
	k, err := tokenIn(t, id)
	if err != nil {
		return err
	}
	for _, q := range []struct {
		name              string
		limit, used, more int64
	}{
		{quotaTokenRuns, k.Limits.Runs, k.Used.Runs, runs},
		{quotaTokenTokens, k.Limits.Tokens, k.Used.Tokens, 1},
		{quotaTokenCost, k.Limits.CostNano, k.Used.CostNano, 1},
	} {
		if q.limit > 0 && q.used+q.more > q.limit {
			return database.ForCaller(&QuotaError{Quota: q.name, Limit: q.limit, Used: q.used, Advice: adviceNewToken})
		}
	}
	return nil
}

// CheckToken fails with [ErrNoToken] if the token was deleted, and with a [*QuotaError] if its quotas do
// not allow another run. It counts nothing.
func (n *Tenant) CheckToken(ctx context.Context, id string) error {
	return n.view(ctx, func(t scoped) error { return checkToken(t, id, 1) })
}

// maxUnusedThreads limits the threads without a run among the newest threads of an end user.
const maxUnusedThreads = 100

// CheckUnusedThreads fails with a [*QuotaError] if the newest 100 threads of an end user have no runs. Runs have
// quotas, but an end user could create threads without runs until the tenant cannot have more threads.
func (n *Tenant) CheckUnusedThreads(ctx context.Context, subject string) error {
	return n.view(ctx, func(t scoped) error {
		var unused int64
		if err := t.row([]any{&unused}, `SELECT count(*) FROM (SELECT runs FROM threads WHERE tenant = $1 AND subject = $2
			AND version >= 0 ORDER BY created_ms DESC, id DESC LIMIT $3) AS newest WHERE runs = 0`,
			subject, int64(maxUnusedThreads)); err != nil || unused < maxUnusedThreads {
			return err
		}
		return database.ForCaller(&QuotaError{Quota: "unused_threads", Limit: maxUnusedThreads, Used: unused,
			Advice: "use a thread that has no run yet"})
	})
}

// ResumeWithToken charges the model tokens of a run of an end user to the token in by from now on. It
// fails with [journal.ErrNoRun] if the end user has no such run, with [ErrNoToken] if the token does
// not exist, and with a [*QuotaError] if the token's quotas are used up.
func (n *Tenant) ResumeWithToken(ctx context.Context, run string, by journal.EndUser) error {
	return n.update(ctx, func(t scoped) error {
		if err := checkToken(t, by.Token, 0); err != nil {
			return err
		}
		changed, err := t.Exec(`UPDATE runs SET token = $3 WHERE tenant = $1 AND id = $2 AND subject = $4`,
			run, by.Token, by.Subject)
		if err == nil && changed == 0 {
			err = database.ForCaller(noRun(run))
		}
		return err
	})
}

// chargeToken adds the model tokens and the cost of a commit to the usage of the run's token. It sets
// c.Full if the run is in progress and a quota of the token is exceeded. Each difference is counted
// once, as in the tenant's usage.
func (m *meter) chargeToken(t database.Tx, c *journal.Commit) error {
	if m == nil || m.token == "" {
		return nil
	}
	p := c.Progress
	used := max(0, p.Usage.PromptTokens-m.usage.PromptTokens) + max(0, p.Usage.CompletionTokens-m.usage.CompletionTokens)
	if used == 0 && m.costNano == 0 {
		return nil
	}
	var limits, sums TokenUsage
	if _, err := database.One(t, `UPDATE tokens SET tokens = tokens + $2, cost_nano = cost_nano + $3 WHERE id = $1
		RETURNING max_tokens, tokens, max_cost_nano, cost_nano`, []any{m.token, used, m.costNano},
		&limits.Tokens, &sums.Tokens, &limits.CostNano, &sums.CostNano); err != nil {
		return fmt.Errorf("charge token %s: %w", m.token, err)
	}
	if p.Status != journal.StatusRunning || c.Full != nil {
		return nil
	}
	switch {
	case limits.Tokens > 0 && sums.Tokens > limits.Tokens:
		c.Full = &journal.FullError{Limit: quotaTokenTokens, Token: true, Max: limits.Tokens, Used: sums.Tokens}
	case limits.CostNano > 0 && sums.CostNano > limits.CostNano:
		c.Full = &journal.FullError{Limit: quotaTokenCost, Token: true, Max: limits.CostNano, Used: sums.CostNano}
	}
	return nil
}
