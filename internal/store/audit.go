package store

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// An Actor is the originator of a change that an audit log records.
type Actor = journal.Actor

// Ids of actors that are neither keys nor users.
const (
	ActorServer    = "server"    // a server by itself, or a command on its machine
	ActorOperator  = "operator"  // in a tenant's log: any actor of the operator
	ActorAnonymous = "anonymous" // a client that did not sign in
)

type actorKey struct{}

// WithActor returns a context whose changes of the store are recorded with the actor. The default
// actor is [ActorServer].
func WithActor(ctx context.Context, a *Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf returns the actor of a context; see [WithActor].
func ActorOf(ctx context.Context) *Actor {
	if a, ok := ctx.Value(actorKey{}).(*Actor); ok {
		return a
	}
	return &Actor{Tenant: Operator, ID: ActorServer}
}

// An AuditRecord is a row of an audit log.
type AuditRecord struct {
	Seq int64 // the number of the record in its log, from 1
	At  time.Time
	Actor
	Action string          // such as key.create
	Target string          // what the action changed, such as the id of a key
	Detail json.RawMessage // a JSON object, such as {"before":…,"after":…}
}

// An AuditFilter selects a page of an audit log. Empty fields select all records.
type AuditFilter struct {
	Actor, Action, Target string
	From, To              time.Time // From is included, To is not
	Page
}

// maxAuditDetail limits the detail of a record, in bytes, and maxAuditText its other texts.
const (
	maxAuditDetail = 4 << 10
	maxAuditText   = 300
)

// A change describes the values before and after an action, for the detail of a record.
type change struct {
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
}

// record adds a record to a tenant's audit log in the transaction of the change that it describes.
// The tenant's row must be locked. If the actor is the operator and the tenant is another one, the
// tenant's log names the actor only as [ActorOperator], and the operator's log has a record too.
func record(ctx context.Context, t database.Tx, tenant, action, target string, detail any) error {
	a := *ActorOf(ctx)
	if tenant == a.Tenant {
		return addRecord(t, tenant, &a, action, target, detail)
	}
	shown := &Actor{ID: ActorOperator, Request: a.Request}
	if err := addRecord(t, tenant, shown, action, target, detail); err != nil {
		return err
	}
	return recordOperator(t, &a, action, tenant+"/"+target, detail)
}

// recordOperator adds a record to the operator's log. It locks the operator's row, which transactions
// lock after the rows of other tenants.
func recordOperator(t database.Tx, a *Actor, action, target string, detail any) error {
	if _, err := t.Exec(`UPDATE tenants SET id = id WHERE id = ''`); err != nil {
		return err
	}
	return addRecord(t, Operator, a, action, target, detail)
}

func addRecord(t database.Tx, tenant string, a *Actor, action, target string, detail any) error {
	b := []byte("{}")
	if detail != nil {
		var err error
		if b, err = json.Marshal(detail); err != nil {
			return err
		}
	}
	if len(b) > maxAuditDetail {
		b = []byte(`{"omitted":"larger than 4096 bytes"}`)
	}
	_, err := t.Exec(
		`INSERT INTO audit_log (tenant, seq, at_ms, actor, actor_name, address, request, action, target, detail)
		VALUES ($1, (SELECT COALESCE(max(seq), 0) + 1 FROM audit_log WHERE tenant = $1), NOW_MS, $2, $3, $4, $5, $6, $7, $8)`,
		tenant,
		auditText(a.ID),
		auditText(a.Name),
		auditText(a.Address),
		auditText(a.Request),
		action,
		auditText(target),
		string(b),
	)
	return err
}

// auditText shortens a text of a record, and removes bytes that databases reject.
func auditText(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s[:min(len(s), maxAuditText)], "\x00", ""), "")
}

// record is like the function of the same name, for the transaction's tenant.
func (t scoped) record(ctx context.Context, action, target string, detail any) error {
	return record(ctx, t.tx, t.tenant, action, target, detail)
}

// lockAudit locks the row of the tenant whose log gets a record of a commit. It must be called before
// other rows are locked, because transactions that change the tenant lock its row first, too.
func lockAudit(t database.Tx, c *journal.Commit) error {
	if c.Audit == nil {
		return nil
	}
	_, err := t.Exec(`UPDATE tenants SET id = id WHERE id = (SELECT tenant FROM runs WHERE id = $1)`, c.Run)
	return err
}

// recordAudit adds the record of a commit to the log of the run's tenant.
func recordAudit(t database.Tx, c *journal.Commit) error {
	if c.Audit == nil {
		return nil
	}
	r, err := run(t, c.Run)
	if err != nil {
		return err
	}
	return addRecord(t, r.Tenant, &c.Audit.Actor, c.Audit.Action, c.Audit.Target, c.Audit.Detail)
}

// Audit adds a record to the tenant's audit log. It is for actions that change nothing in the
// store, or that have already happened.
func (n *Tenant) Audit(ctx context.Context, action, target string, detail any) error {
	return n.update(ctx, func(t scoped) error { return t.record(ctx, action, target, detail) })
}

// AuditLog returns a page of the tenant's audit log, the newest record first, and the position of
// its last record if more follow.
func (n *Tenant) AuditLog(ctx context.Context, f *AuditFilter) (out []AuditRecord, next *Position, err error) {
	before := int64(1) << 62
	if f.After != nil {
		if before, err = strconv.ParseInt(f.After.Name, 10, 64); err != nil {
			return nil, nil, err
		}
	}
	sql := `SELECT seq, at_ms, actor, actor_name, address, request, action, target, detail FROM audit_log
		WHERE tenant = $1 AND seq < $2 AND at_ms >= $3 AND at_ms < $4`
	from, to := int64(0), int64(1)<<62
	if !f.From.IsZero() {
		from = f.From.UnixMilli()
	}
	if !f.To.IsZero() {
		to = f.To.UnixMilli()
	}
	args := []any{before, from, to}
	for _, filter := range []struct{ column, value string }{
		{"target", f.Target}, {"actor", f.Actor}, {"action", f.Action},
	} {
		if filter.value != "" {
			args = append(args, filter.value)
			sql += " AND " + filter.column + " = $" + strconv.Itoa(len(args)+1)
		}
	}
	sql += ` ORDER BY seq DESC LIMIT $` + strconv.Itoa(len(args)+2)
	err = n.view(ctx, func(t scoped) (err error) {
		out, next, err = list(t, f.Page, func(scan func(...any) error) (r AuditRecord, err error) {
			var at int64
			var detail string
			err = scan(&r.Seq, &at, &r.ID, &r.Name, &r.Address, &r.Request, &r.Action, &r.Target, &detail)
			r.At, r.Detail, r.Tenant = time.UnixMilli(at), json.RawMessage(detail), n.id
			return r, err
		}, func(r *AuditRecord) Position { return Position{Name: strconv.FormatInt(r.Seq, 10)} }, sql, args...)
		return err
	})
	return out, next, err
}

// maxAuditRecords is the number of records that PruneAudit keeps in the log of one tenant.
const maxAuditRecords = 1_000_000

// PruneAudit implements [Platform].
func (s *store) PruneAudit(ctx context.Context, age time.Duration) (int64, error) {
	var tenants []string
	if err := s.db.View(ctx, func(t database.Tx) (err error) {
		tenants, err = database.Strings(t, `SELECT id FROM tenants`)
		return err
	}); err != nil {
		return 0, err
	}
	total := int64(0)
	for _, tenant := range tenants {
		if err := database.InBatches(ctx, func() (more bool, err error) {
			var n int64
			err = s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
				// The newest record stays, because its number is the one before the next.
				n, err = t.Exec(`DELETE FROM audit_log WHERE tenant = $1 AND seq IN
					(SELECT seq FROM audit_log WHERE tenant = $1
						AND seq < (SELECT max(seq) FROM audit_log WHERE tenant = $1)
						AND (CAST($2 AS BIGINT) > 0 AND at_ms < NOW_MS - $2
							OR seq <= (SELECT max(seq) FROM audit_log WHERE tenant = $1) - $3)
						ORDER BY seq LIMIT $4)`,
					tenant, age.Milliseconds(), int64(maxAuditRecords), int64(database.BatchRows))
				return err
			})
			total += n
			return n == database.BatchRows, err
		}); err != nil {
			return total, err
		}
	}
	return total, nil
}
