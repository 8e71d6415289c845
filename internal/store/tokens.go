package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A token's text is "art_", an id of ten characters, "_", and a secret of 256 bits.
const tokenPrefix = "art_"

// Limits on the tokens of a tenant.
const (
	maxTokens        = 100_000 // of a tenant, with those that expired within expiredTokenTTL
	maxSubjectTokens = 50      // of one end user; the oldest are deleted
	// expiredTokenTTL is the time for which an expired token stays in the store, so that its quotas apply to the
	// runs that it started.
	expiredTokenTTL = time.Hour
	// tokenRecordInterval is the minimum time between two records of tokens that one key creates.
	tokenRecordInterval = time.Minute
)

// ErrNoToken is the error of a token that does not exist.
var ErrNoToken = errors.New("no such token")

// A Token gives an end user of a tenant access to agents for a short time.
type Token struct {
	ID      string
	Tenant  string
	Issuer  string // the id of the API key that created the token
	Subject string // the tenant's name for the end user

	Agents   []string        // references to agents: NAME, NAME@VERSION or NAME@ALIAS
	Thread   string          // the thread of all runs; empty for no such restriction
	Threads  bool            // gives access to the threads of the subject, and allows to create them
	Answers  bool            // allows to answer interrupts
	Metadata json.RawMessage // the metadata of all runs, a JSON object; nil for none

	Limits TokenUsage // 0 means no limit
	Used   TokenUsage

	Created time.Time
	Expires time.Time
}

// A TokenUsage is the usage of the runs of a token.
type TokenUsage struct {
	Runs     int64 // runs that began or were queued
	Tokens   int64 // tokens of models, prompts and completions together
	CostNano int64 // in billionths of the currency
}

const tokenColumns = `tokens.id, tokens.tenant, tokens.issuer, tokens.subject, tokens.agents, tokens.thread, tokens.threads,
	tokens.answers, tokens.metadata, tokens.max_runs, tokens.max_tokens, tokens.max_cost_nano, tokens.runs, tokens.tokens,
	tokens.cost_nano, tokens.created_ms, tokens.expires_ms`

func scanToken(scan func(...any) error, more ...any) (k Token, err error) {
	var agents, metadata string
	var threads, answers, created, expires int64
	if err := scan(append([]any{&k.ID, &k.Tenant, &k.Issuer, &k.Subject, &agents, &k.Thread, &threads, &answers, &metadata,
		&k.Limits.Runs, &k.Limits.Tokens, &k.Limits.CostNano, &k.Used.Runs, &k.Used.Tokens, &k.Used.CostNano,
		&created, &expires}, more...)...); err != nil {
		return k, err
	}
	if err := json.Unmarshal([]byte(agents), &k.Agents); err != nil {
		return k, database.Corruptf("the agents of token %s: %w", k.ID, err)
	}
	if metadata != "" {
		k.Metadata = json.RawMessage(metadata)
	}
	k.Threads, k.Answers = threads != 0, answers != 0
	k.Created, k.Expires = time.UnixMilli(created), time.UnixMilli(expires)
	return k, nil
}

// CreateToken creates a token with the fields of k from Issuer to Limits, and returns its text, which
// is not stored. The token expires after ttl, or earlier if its issuer, an API key, expires earlier.
// CreateToken deletes the oldest tokens of a subject that has more than 50. It fails with
// [journal.ErrNoThread] if the subject has no such thread, with [ErrNoKey] if the issuer is not a key
// of the tenant, and with a [*QuotaError] if the tenant has 100,000 tokens.
func (n *Tenant) CreateToken(ctx context.Context, k *Token, ttl time.Duration) (made *Token, text string, err error) {
	id, secret := randomText(8, keyIDLen), randomText(keySecretBytes, keyEncoding.EncodedLen(keySecretBytes))
	err = n.update(ctx, func(t scoped) error {
		made, err = createToken(ctx, t, k, id, secret, ttl)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return made, tokenPrefix + id + "_" + secret, nil
}

func createToken(ctx context.Context, t scoped, k *Token, id, secret string, ttl time.Duration) (*Token, error) {
	key, err := keyIn(t, k.Issuer)
	if err != nil {
		return nil, err
	}
	if k.Thread != "" {
		if h, err := threadIn(t, k.Thread); err != nil {
			return nil, err
		} else if h.Subject != k.Subject {
			return nil, noThread(h.ID)
		}
	}
	if err := trimTokens(t, k.Subject); err != nil {
		return nil, err
	}
	if err := checkCount(t, "tokens", maxTokens, fmt.Sprintf(
		`SELECT count(*) FROM (SELECT 1 FROM tokens WHERE tenant = $1 LIMIT %d) AS counted`, maxTokens)); err != nil {
		return nil, err
	}
	if err := insertToken(t, k, id, secret, ttl, key.Expires); err != nil {
		return nil, err
	}
	made, err := tokenIn(t, id)
	if err != nil {
		return nil, err
	}
	missing, record, err := unrecordedTokens(ctx, t, k.Issuer)
	if err != nil || !record {
		return made, err
	}
	detail := tokenDetail(made)
	if missing > 0 {
		detail["not_recorded"] = missing
	}
	return made, t.record(ctx, "token.create", id, change{After: detail})
}

// insertToken inserts the row of a token. expires is the time at which its issuer expires; zero for never.
func insertToken(t scoped, k *Token, id, secret string, ttl time.Duration, expires time.Time) error {
	hash := sha256.Sum256([]byte(secret))
	agents, err := marshal(k.Agents)
	if err != nil {
		return err
	}
	latest := int64(1) << 62
	if !expires.IsZero() {
		latest = expires.UnixMilli()
	}
	_, err = t.Exec(`INSERT INTO tokens (tenant, id, hash, issuer, subject, agents, thread, threads, answers, metadata,
		max_runs, max_tokens, max_cost_nano, runs, tokens, cost_nano, created_ms, expires_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, 0, 0, NOW_MS,
			CASE WHEN NOW_MS + $14 < $15 THEN NOW_MS + $14 ELSE $15 END)`,
		id, hash[:], k.Issuer, k.Subject, agents, k.Thread, flag(k.Threads), flag(k.Answers), string(k.Metadata),
		k.Limits.Runs, k.Limits.Tokens, k.Limits.CostNano, ttl.Milliseconds(), latest)
	return err
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// trimTokens deletes the oldest tokens of a subject, to leave room for another one.
func trimTokens(t scoped, subject string) error {
	_, err := t.Exec(fmt.Sprintf(`DELETE FROM tokens WHERE tenant = $1 AND subject = $2 AND id NOT IN
		(SELECT id FROM tokens WHERE tenant = $1 AND subject = $2 ORDER BY created_ms DESC, id DESC LIMIT %d)`,
		maxSubjectTokens-1), subject)
	return err
}

// unrecordedTokens reports whether the audit log must record the newest token of a key, and returns
// the number of tokens of the key since the last record that it does not record. A server of the
// tenant may create a token for each visitor. Without this limit, the records of tokens would
// displace all others.
func unrecordedTokens(ctx context.Context, t scoped, issuer string) (missing int64, record bool, err error) {
	var last, now int64
	if err := t.row([]any{&last, &now}, `SELECT COALESCE((SELECT at_ms FROM audit_log
		WHERE tenant = $1 AND action = 'token.create' AND actor = $2 ORDER BY seq DESC LIMIT 1), 0), NOW_MS`,
		auditText(ActorOf(ctx).ID)); err != nil || now-last < tokenRecordInterval.Milliseconds() {
		return 0, false, err
	}
	err = t.row([]any{&missing}, `SELECT count(*) FROM tokens WHERE tenant = $1 AND issuer = $2 AND created_ms > $3`,
		issuer, last)
	return max(0, missing-1), true, err
}

// tokenDetail returns the details of a token for audit logs.
func tokenDetail(k *Token) map[string]any {
	d := map[string]any{"subject": k.Subject, "agents": k.Agents, "expires": k.Expires.UTC(),
		"runs": k.Limits.Runs, "tokens": k.Limits.Tokens}
	if k.Thread != "" {
		d["thread"] = k.Thread
	}
	if k.Answers {
		d["answers"] = true
	}
	return d
}

func tokenIn(t scoped, id string) (*Token, error) {
	var k Token
	found := false
	err := t.Query(func(scan func(...any) error) (err error) {
		found = true
		k, err = scanToken(scan)
		return err
	}, `SELECT `+tokenColumns+` FROM tokens WHERE tenant = $1 AND id = $2`, id)
	if err == nil && !found {
		err = database.ForCaller(fmt.Errorf("token %s: %w", id, ErrNoToken))
	}
	return &k, err
}

// Tokens returns a page of the tenant's tokens, the newest first, and the position of its last token
// if more follow. If subject is not empty, it selects the tokens of one end user.
func (n *Tenant) Tokens(ctx context.Context, subject string, p Page) (out []Token, next *Position, err error) {
	created, id := p.older()
	args, where := []any{created, id}, ""
	if subject != "" {
		args, where = append(args, subject), ` AND subject = $4`
	}
	err = n.view(ctx, func(t scoped) (err error) {
		out, next, err = list(t, p, func(scan func(...any) error) (Token, error) { return scanToken(scan) },
			func(k *Token) Position { return Position{k.Created, k.ID} },
			`SELECT `+tokenColumns+` FROM tokens WHERE tenant = $1 AND (created_ms, id) < ($2, $3)`+where+
				fmt.Sprintf(` ORDER BY created_ms DESC, id DESC LIMIT $%d`, len(args)+2), args...)
		return err
	})
	return out, next, err
}

// DeleteToken deletes a token, which gives no access afterwards. It fails with [ErrNoToken] if the
// tenant has no such token.
func (n *Tenant) DeleteToken(ctx context.Context, id string) error {
	return n.update(ctx, func(t scoped) error {
		k, err := tokenIn(t, id)
		if err != nil {
			return err
		}
		if _, err := t.Exec(`DELETE FROM tokens WHERE tenant = $1 AND id = $2`, id); err != nil {
			return err
		}
		return t.record(ctx, "token.delete", id, change{Before: map[string]any{"subject": k.Subject, "agents": k.Agents}})
	})
}

// DeleteTokens deletes the tokens of an end user, and returns their number.
func (n *Tenant) DeleteTokens(ctx context.Context, subject string) (deleted int64, err error) {
	err = n.update(ctx, func(t scoped) error {
		deleted, err = t.Exec(`DELETE FROM tokens WHERE tenant = $1 AND subject = $2`, subject)
		if err != nil || deleted == 0 {
			return err
		}
		return t.record(ctx, "token.delete", "all", map[string]any{"subject": subject, "tokens": deleted})
	})
	return deleted, err
}

// PruneTokens implements [Platform].
func (s *store) PruneTokens(ctx context.Context) (total int64, err error) {
	err = database.InBatches(ctx, func() (more bool, err error) {
		var n int64
		err = s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
			n, err = t.Exec(`DELETE FROM tokens WHERE id IN
				(SELECT id FROM tokens WHERE expires_ms <= NOW_MS - $1 ORDER BY expires_ms LIMIT $2)`,
				expiredTokenTTL.Milliseconds(), int64(database.BatchRows))
			return err
		})
		total += n
		return n == database.BatchRows, err
	})
	return total, err
}

// IsToken reports whether a credential has the form of an end user's token.
func IsToken(text string) bool { return strings.HasPrefix(text, tokenPrefix) }

var errUnknownToken = &KeyError{Reason: "unknown token"}

// AuthenticateToken implements [Platform].
func (s *store) AuthenticateToken(ctx context.Context, text string) (*Token, *TenantInfo, error) {
	id, secret, ok := strings.Cut(strings.TrimPrefix(text, tokenPrefix), "_")
	if !ok || !IsToken(text) || len(id) != keyIDLen || len(secret) != keyEncoding.EncodedLen(keySecretBytes) {
		return nil, nil, errUnknownToken
	}
	given := sha256.Sum256([]byte(secret))
	var k Token
	var hash []byte
	var issued, now int64
	var info *TenantInfo
	err := s.db.View(ctx, func(t database.Tx) error {
		k, info = Token{}, nil
		// A token is valid only as long as the key that created it.
		err := t.Query(func(scan func(...any) error) (err error) {
			k, err = scanToken(scan, &hash, &issued, &now)
			hash = bytes.Clone(hash)
			return err
		}, `SELECT `+tokenColumns+`, hash, (SELECT count(*) FROM api_keys WHERE api_keys.id = tokens.issuer
			AND api_keys.tenant = tokens.tenant AND NOT `+oldKey+`), NOW_MS FROM tokens WHERE id = $1`, id)
		if err == nil && k.ID != "" {
			info, err = tenantIn(t, k.Tenant) // deleting a tenant deletes its tokens
		}
		return err
	})
	switch {
	case err != nil:
		return nil, nil, err
	case k.ID == "" || subtle.ConstantTimeCompare(hash, given[:]) != 1:
		return nil, nil, errUnknownToken
	case k.Expires.UnixMilli() <= now:
		return nil, nil, &KeyError{k.ID, fmt.Sprintf("token %s expired at %s", k.ID, k.Expires.UTC().Format(time.RFC3339))}
	case issued == 0:
		return nil, nil, &KeyError{
			k.ID,
			fmt.Sprintf("token %s is not valid: the key that created it was revoked or has expired", k.ID),
		}
	}
	return &k, info, nil
}

// endedPage is the number of tokens that one statement of EndedTokens reads.
const endedPage = 512

// EndedTokens implements [Platform].
func (s *store) EndedTokens(ctx context.Context, ids []string, grace time.Duration) (ended []string, err error) {
	for page := range slices.Chunk(ids, endedPage) {
		valid := map[string]bool{}
		args := []any{grace.Milliseconds()}
		var list strings.Builder
		for i := range placeholders(len(page)) {
			args = append(args, page[min(i, len(page)-1)])
			fmt.Fprintf(&list, ", $%d", len(args))
		}
		if err := s.db.View(ctx, func(t database.Tx) error {
			return t.Query(func(scan func(...any) error) error {
				var id string
				err := scan(&id)
				valid[id] = true
				return err
			}, `SELECT id FROM tokens WHERE expires_ms > NOW_MS - $1 AND id IN (`+list.String()[2:]+`) AND EXISTS (
				SELECT 1 FROM api_keys WHERE api_keys.id = tokens.issuer AND api_keys.tenant = tokens.tenant AND NOT `+oldKey+`)`,
				args...)
		}); err != nil {
			return nil, err
		}
		for _, id := range page {
			if !valid[id] {
				ended = append(ended, id)
			}
		}
	}
	return ended, nil
}

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
