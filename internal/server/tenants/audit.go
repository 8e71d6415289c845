package tenants

import (
	"bytes"
	"context"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Audit serves the audit logs of tenants.
type Audit struct {
	Store     store.Store
	Admission *admission.Controller
	Timeouts  *httpapi.Timeouts
}

// Limits of an export.
const (
	maxExport  = 1_000_000 // records
	exportPage = 1000      // records that are read at once
)

type (
	// AuditInput is embedded in the inputs of the routes that show audit logs.
	AuditInput struct {
		Actor  string    `query:"actor" maxLength:"300" doc:"Only records of this actor, such as key:abcdefghij."`
		Action string    `query:"action" maxLength:"100" doc:"Only records of this action, such as key.create."`
		Target string    `query:"target" maxLength:"300" doc:"Only records of this target."`
		From   time.Time `query:"from" doc:"Only records from this time on."`
		To     time.Time `query:"to" doc:"Only records before this time."`
	}
	listAuditInput struct {
		AuditInput
		httpapi.ListInput
	}
	listTenantAuditInput struct {
		TenantPath
		AuditInput
		httpapi.ListInput
	}
	auditOutput struct {
		Body struct {
			Records []api.AuditRecord `json:"records" nullable:"false"`
			httpapi.ListOutput
		}
	}
)

const aboutAudit = `Who changed what, when and from which address: keys, members, groups, policies and quotas, modules, agents,
gateways, secrets, blocks, answers to interrupts, and sign-ins. Actions of the operator on a tenant are in the tenant's
log with the actor operator.`

// Routes registers the endpoints that show audit logs.
func (a *Audit) Routes(rt *httpapi.Router) {
	const tag = "audit"
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-audit",
		Method:  "GET",
		Path:    "/v1/audit",
		Scope:   httpapi.AuditRead,
		Tag:     tag,
		Summary: "List your tenant's audit log, newest first",
		About:   aboutAudit + "\n\n" + httpapi.AboutLists,
	}, func(ctx context.Context, c *httpapi.Caller, in *listAuditInput) (*auditOutput, error) {
		return a.list(ctx, c.Tenant, &in.AuditInput, &in.ListInput)
	})
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-tenant-audit",
		Method:  "GET",
		Path:    "/v1/tenants/{tenant}/audit",
		Scope:   httpapi.OperatorRead,
		Tag:     tag,
		Summary: "List a tenant's audit log, newest first",
		About:   httpapi.AboutLists,
	}, func(ctx context.Context, _ *httpapi.Caller, in *listTenantAuditInput) (*auditOutput, error) {
		if _, err := a.Store.TenantInfo(ctx, in.Tenant); err != nil {
			return nil, err
		}
		return a.list(ctx, a.Store.Tenant(in.Tenant), &in.AuditInput, &in.ListInput)
	})
	rt.Raw(httpapi.Route{
		ID:      "export-audit",
		Method:  "GET",
		Path:    "/v1/audit/export",
		Scope:   httpapi.AuditRead,
		Tag:     tag,
		Summary: "Export your tenant's audit log as lines of JSON, newest first",
		About:   "At most 1,000,000 records. The filters are those of the list.",
	}, describeExport, a.export)
}

// filter returns the store's filter.
func (in *AuditInput) filter(p store.Page) *store.AuditFilter {
	return &store.AuditFilter{Actor: in.Actor, Action: in.Action, Target: in.Target, From: in.From, To: in.To, Page: p}
}

func (a *Audit) list(
	ctx context.Context, t *store.Tenant, in *AuditInput, list *httpapi.ListInput,
) (out *auditOutput, err error) {
	read := func(ctx context.Context, p store.Page) ([]store.AuditRecord, *store.Position, error) {
		return t.AuditLog(ctx, in.filter(p))
	}
	out = &auditOutput{}
	out.Body.Records, out.Body.ListOutput, err = httpapi.List(
		ctx, &list.CursorInput, list.Limit, httpapi.ListAudit, t.ID(), read, showRecord)
	return out, err
}

func showRecord(r *store.AuditRecord) api.AuditRecord {
	return api.AuditRecord{
		ID:        strconv.FormatInt(r.Seq, 10),
		Time:      r.At.UTC(),
		Actor:     r.ID,
		ActorName: r.Name,
		Address:   r.Address,
		Request:   r.Request,
		Action:    r.Action,
		Target:    r.Target,
		Detail:    r.Detail,
	}
}

func describeExport(op *huma.Operation, registry huma.Registry) {
	for _, name := range []string{"actor", "action", "target"} {
		op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "query",
			Schema: &huma.Schema{Type: "string"}, Description: "Only records of this " + name + "."})
	}
	for _, name := range []string{"from", "to"} {
		op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "query",
			Schema: &huma.Schema{Type: "string", Format: "date-time"}, Description: "The start or the end of the time."})
	}
	record := registry.Schema(reflect.TypeFor[api.AuditRecord](), true, "AuditRecord")
	op.Responses["200"] = &huma.Response{
		Description: "One record a line",
		Content:     map[string]*huma.MediaType{"application/x-ndjson": {Schema: record}},
	}
}

// exportInput parses the query of an export.
func exportInput(r *http.Request) (*AuditInput, error) {
	q := r.URL.Query()
	in := &AuditInput{Actor: q.Get("actor"), Action: q.Get("action"), Target: q.Get("target")}
	for name, to := range map[string]*time.Time{"from": &in.From, "to": &in.To} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, httpapi.NewParameterProblem(name, "want a time such as 2026-01-31T12:00:00Z")
		}
		*to = at
	}
	return in, nil
}

// export writes the records page by page. Each page is read and encoded once the admission
// controller admits it, and is no longer in memory when the next one is read.
func (a *Audit) export(w http.ResponseWriter, r *http.Request, c *httpapi.Caller) error {
	in, err := exportInput(r)
	if err != nil {
		return err
	}
	f := in.filter(store.Page{Limit: exportPage})
	control := http.NewResponseController(w)
	for written := 0; ; {
		var page bytes.Buffer
		var next *store.Position
		if err := c.Read(r.Context(), a.Admission, func() error {
			records, after, err := c.Tenant.AuditLog(r.Context(), f)
			next, written = after, written+len(records)
			for i := 0; i < len(records) && err == nil; i++ {
				err = httpapi.WriteJSON(&page, showRecord(&records[i]))
			}
			return err
		}); err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		_ = control.SetWriteDeadline(time.Now().Add(a.Timeouts.Response))
		if _, err := w.Write(page.Bytes()); err != nil {
			return err
		}
		if next == nil || written >= maxExport {
			return nil
		}
		f.After = next
	}
}
